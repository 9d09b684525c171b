{#- Which airlines are late in which hour: fixed windows, conditions inside the aggregates and on them. -#}
{{ config(
    enabled=(project_name == 'spark_streaming'),
    materialized='window_aggregate',
) }}
-- The files have to be there first. depends_on: {{ ref('flight_files') }}

select
    window_start,
    window_end,
    carrier,
    count(*) filter (where not cancelled) as departures,
    count(*) filter (where dep_delay > 15) as late_departures,
    count(*) filter (where cancelled) as cancellations,
    round(avg(dep_delay), 1) as mean_delay,
    max(dep_delay) as longest_delay
from {{ tumble(source('example', 'flights'), 'departed_at', '1 hour') }}
group by window_start, window_end, carrier
having count(*) filter (where dep_delay > 15) >= 5
