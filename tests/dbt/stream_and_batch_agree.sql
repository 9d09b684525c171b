{{ config(enabled=(project_name == 'spark_streaming')) }}
-- Rows that only one of the two has, as far as the stream has come.
{%- set streamed = ref('departures_since_midnight') %}
{%- set batched = ref('departures_since_midnight_in_batch') %}

with closed as (
    select * from {{ batched }}
    where window_end <= (select max(window_end) from {{ streamed }})
),

only_streamed as (
    select * from {{ streamed }}
    except all
    select * from closed
),

only_batched as (
    select * from closed
    except all
    select * from {{ streamed }}
)

select 'stream' as only_in, * from only_streamed
union all
select 'batch' as only_in, * from only_batched
