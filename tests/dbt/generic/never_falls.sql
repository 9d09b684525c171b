{% test never_falls(model, column_name, within, along) %}
{#- Rows on which the column is smaller than on the row before it (`along`) of the same curve (`within`). -#}
select * from (
    select
        *,
        lag({{ column_name }}) over (partition by {{ within | join(', ') }} order by {{ along }}) as value_before
    from {{ model }}
) as points
where {{ column_name }} < value_before
{% endtest %}
