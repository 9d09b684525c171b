{#- The routes with most flights so far. What it has to remember is bounded: three airports, and where they fly to. -#}
{{ config(
    enabled=(project_name == 'spark_streaming'),
    materialized='topn',
    constant_domains=['origin', 'dest'],
) }}
-- The files have to be there first. depends_on: {{ ref('flight_files') }}

with routes as (
    select
        origin,
        dest,
        count(*) as flights,
        count(distinct carrier) as airlines
    from {{ stream(source('example', 'flight_thirds')) }}
    where not cancelled
    group by origin, dest
)

select * from (
    select
        origin,
        row_number() over (partition by origin order by flights desc, dest) as place,
        dest,
        flights,
        airlines
    from routes
) as ranked
where place <= 5
