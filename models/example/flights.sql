{#- From files to a table: a stream without state. A model that reads it reads it as a stream again. -#}
{{ config(
    enabled=(project_name == 'spark_streaming'),
    materialized='streaming_table',
    event_time='departed_at',
) }}
-- The files have to be there first. depends_on: {{ ref('flight_files') }}

select
    departed_at,
    origin,
    dest,
    carrier,
    tailnum,
    dep_delay,
    arr_delay,
    distance,
    cancelled
from {{ stream(source('example', 'flights')) }}
