{#- A stream joined with a table that stands still. `stream()` says which of the two moves. -#}
{{ config(
    enabled=(project_name == 'spark_streaming'),
    materialized='streaming_table',
) }}

with named as (
    select
        flights.departed_at,
        airlines.name as airline,
        flights.dest,
        flights.distance
    from {{ stream(ref('flights')) }} as flights
    join {{ ref('airlines') }} as airlines on airlines.carrier = flights.carrier
    where not flights.cancelled
)

select
    window_start,
    window_end,
    airline,
    count(*) as departures,
    count(distinct dest) as destinations,
    sum(distance) as miles
from {{ tumble('named', 'departed_at', '1 day') }}
group by window_start, window_end, airline
