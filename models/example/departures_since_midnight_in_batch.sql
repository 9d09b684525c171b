{#- The text of departures_since_midnight, run in batch: the same rows (tests/dbt/stream_and_batch_agree.sql). -#}
{{ config(
    enabled=(project_name == 'spark_streaming'),
    materialized='table',
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
