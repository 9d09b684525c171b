{{ config(enabled=(project_name == 'spark_streaming')) }}
-- What the change feed puts in and doesn't take back is the table.
{%- set weeks = ref('airline_weeks') %}
{%- set changes = weeks.incorporate(path={'identifier': weeks.identifier ~ '__changes'}) %}
{%- set columns = 'window_start, window_end, carrier, departures, aircraft' %}

with replayed as (
    select {{ columns }}
    from {{ changes }}
    group by {{ columns }}
    having count_if(_change_type in ('insert', 'update_after')) > count_if(_change_type in ('update_before', 'delete'))
),

only_replayed as (
    select * from replayed
    except all
    select {{ columns }} from {{ weeks }}
),

only_in_table as (
    select {{ columns }} from {{ weeks }}
    except all
    select * from replayed
)

select 'changes' as only_in, * from only_replayed
union all
select 'table' as only_in, * from only_in_table
