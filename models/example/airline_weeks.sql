{#- An airline's week while it goes on: a result each day, which the next one replaces, and all that changed. -#}
{{ config(
    enabled=(project_name == 'spark_streaming'),
    materialized='window_aggregate',
    first_result_offset='-6 days',
    update_rate='1 day',
    changelog=true,
) }}
-- The files have to be there first. depends_on: {{ ref('flight_files') }}

select
    window_start,
    window_end,
    carrier,
    count(*) filter (where not cancelled) as departures,
    count(distinct tailnum) filter (where not cancelled) as aircraft
from {{ tumble(source('example', 'flight_thirds'), 'departed_at', '7 days', offset='4 days') }}
group by window_start, window_end, carrier
