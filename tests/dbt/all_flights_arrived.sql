{{ config(enabled=(project_name == 'spark_streaming')) }}
-- The stream took every row of every file, and took it once.

select loaded.flights as in_files, streamed.flights as in_table
from (select sum(flights) as flights from {{ ref('flight_files') }}) as loaded
cross join (select count(*) as flights from {{ ref('flights') }}) as streamed
where loaded.flights <> streamed.flights
