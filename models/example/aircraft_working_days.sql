{#- From an aircraft's first departure until none follows for eight hours: windows that a silence ends. -#}
{{ config(
    enabled=(project_name == 'spark_streaming'),
    materialized='window_aggregate',
) }}

-- One airline's. Filtered below the window function, so that sessions are those of the rows that are left.
with departed as (
    select * from {{ ref('flights') }}
    where not cancelled and carrier = 'MQ'
)

select
    window_start,
    window_end,
    tailnum,
    count(*) as departures,
    count(distinct dest) as destinations,
    max(departed_at) as last_departed_at
from {{ session('departed', 'departed_at', '8 hours', partition_by=['tailnum']) }}
group by window_start, window_end, tailnum
