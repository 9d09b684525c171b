{#- Each day's best airlines by flights that landed on time: groups of a whole stream, and the first ten of each day. -#}
{{ config(
    enabled=(project_name == 'spark_streaming'),
    materialized='topn',
    state_ttl='2 days',
) }}

with carriers as (
    select
        cast(departed_at as date) as day,
        carrier,
        count(*) as flights,
        count_if(arr_delay <= 15) as on_time
    from {{ stream(ref('flights')) }}
    where not cancelled
    group by cast(departed_at as date), carrier
),

ranked as (
    select
        day,
        row_number() over (partition by day order by on_time / flights desc, flights desc, carrier) as place,
        carrier,
        flights,
        on_time,
        round(on_time / flights, 3) as on_time_share
    from carriers
)

select * from ranked
where place <= 10
