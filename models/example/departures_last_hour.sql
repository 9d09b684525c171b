{#- How busy an airport is, looking back an hour every quarter of an hour: windows that overlap. -#}
{{ config(
    enabled=(project_name == 'spark_streaming'),
    materialized='window_aggregate',
) }}

select
    window_start,
    window_end,
    origin,
    count(*) as departures,
    count(distinct dest) as destinations
from {{ hop(ref('flights'), 'departed_at', '15 minutes', '1 hour') }}
where not cancelled
group by window_start, window_end, origin
