{{ config(enabled=(project_name == 'spark_streaming')) }}
-- After three micro-batches, the busiest routes are those of the same query over the table of all flights.

with routes as (
    select origin, dest, count(*) as flights, count(distinct carrier) as airlines
    from {{ ref('flights') }}
    where not cancelled
    group by origin, dest
),

expected as (
    select origin, place, dest, flights, airlines
    from (
        select *, row_number() over (partition by origin order by flights desc, dest) as place
        from routes
    ) as ranked
    where place <= 5
),

only_streamed as (
    select * from {{ ref('busiest_routes') }}
    except all
    select * from expected
),

only_expected as (
    select * from expected
    except all
    select * from {{ ref('busiest_routes') }}
)

select 'stream' as only_in, * from only_streamed
union all
select 'batch' as only_in, * from only_expected
