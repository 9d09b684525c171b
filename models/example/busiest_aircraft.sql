{#- The day's busiest aircraft so far, beside what their airlines flew: two windows joined, then ranked. -#}
{{ config(
    enabled=(project_name == 'spark_streaming'),
    materialized='topn',
) }}

with departed as (
    select * from {{ ref('flights') }}
    where not cancelled and departed_at >= '2013-12-01' -- the holidays; a year works the same
),

aircraft as (
    select
        window_start,
        window_end,
        carrier,
        tailnum,
        count(*) as departures,
        count(distinct dest) as destinations
    from {{ cumulate('departed', 'departed_at', '6 hours', '1 day') }}
    group by window_start, window_end, carrier, tailnum
),

airlines as (
    select
        window_start,
        window_end,
        carrier,
        count(*) as departures,
        count(distinct tailnum) as aircraft
    from {{ cumulate('departed', 'departed_at', '6 hours', '1 day') }}
    group by window_start, window_end, carrier
),

ranked as (
    select
        aircraft.window_start,
        aircraft.window_end,
        row_number() over (
            partition by aircraft.window_start, aircraft.window_end
            order by aircraft.departures desc, aircraft.destinations desc, airlines.departures, aircraft.tailnum
        ) as place,
        aircraft.tailnum,
        aircraft.carrier,
        aircraft.departures,
        aircraft.destinations,
        airlines.departures as airline_departures,
        airlines.aircraft as airline_aircraft
    from aircraft
    join airlines
        on
            airlines.window_start = aircraft.window_start
            and airlines.window_end = aircraft.window_end
            and airlines.carrier = aircraft.carrier
)

select * from ranked
where place <= 10
