{{ config(enabled=(project_name == 'spark_streaming')) }}
-- The first ten of each day are those of the same query over the table of all flights.

with carriers as (
    select
        cast(departed_at as date) as day,
        carrier,
        count(*) as flights,
        count_if(arr_delay <= 15) as on_time
    from {{ ref('flights') }}
    where not cancelled
    group by cast(departed_at as date), carrier
),

expected as (
    select day, place, carrier, flights, on_time, round(on_time / flights, 3) as on_time_share
    from (
        select
            *,
            row_number() over (partition by day order by on_time / flights desc, flights desc, carrier) as place
        from carriers
    ) as ranked
    where place <= 10
),

only_streamed as (
    select * from {{ ref('best_carriers') }}
    except all
    select * from expected
),

only_expected as (
    select * from expected
    except all
    select * from {{ ref('best_carriers') }}
)

select 'stream' as only_in, * from only_streamed
union all
select 'batch' as only_in, * from only_expected
