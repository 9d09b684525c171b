{% test same_rows_as(model, other, until=none) %}
{#- Rows that only one of the two has. `until`: of the other only the windows this one has closed. -#}
with expected as (
    select * from {{ other }}
    {%- if until %}
    where {{ until }} <= (select max({{ until }}) from {{ model }})
    {%- endif %}
),

missing as (
    select * from expected
    except all
    select * from {{ model }}
),

too_much as (
    select * from {{ model }}
    except all
    select * from expected
)

select 'missing' as found, * from missing
union all
select 'too much' as found, * from too_much
{% endtest %}
