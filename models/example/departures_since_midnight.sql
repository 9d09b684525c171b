{#- A curve for each airport that starts again at midnight, with a point every half hour. -#}
{{ config(
    enabled=(project_name == 'spark_streaming'),
    materialized='cumulate',
) }}

select
    window_start,
    window_end,
    origin,
    count(*) as departures,
    count(distinct tailnum) as aircraft
from {{ cumulate(ref('flights'), 'departed_at', '30 minutes', '1 day') }}
where not cancelled
group by window_start, window_end, origin
