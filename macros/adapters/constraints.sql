{#
    Contracts. Iceberg keeps no constraints, and a table that is created by a query has no column that is
    NOT NULL. So `not_null` and `check` are looked after in the query itself: a row that breaks one ends it,
    and the table stays as it was.
#}

{% macro spark_streaming__get_select_subquery(sql) %}
    select {{ adapter.dispatch('get_column_names', 'dbt')() }}
    from (
        {{ sql }}
    ) as model_subq
    {{- _where_contract_holds() }}
{%- endmacro %}


{% macro _where_contract_holds() %}
    {%- for condition in adapter.contract_conditions(model) %}
    {{ 'where' if loop.first else 'and' }} {{ condition }}
    {%- endfor %}
{%- endmacro %}


{% macro spark_streaming__get_column_names() %}
    {#- As dbt's own, but a name that needs quotes has them, whatever a column says of `quote`. -#}
    {%- for name, column in model['columns'].items() -%}
        {{ adapter.quote_name(name, column.get('quote') or false) }}{{ ', ' if not loop.last }}
    {%- endfor -%}
{% endmacro %}


{% macro spark_streaming__get_empty_schema_sql(columns) %}
    {%- set quoted = {} -%}
    {%- for name, column in columns.items() -%}
        {%- do quoted.update({name: dict(column, name=adapter.quote_name(column['name'], column.get('quote') or false), quote=false)}) -%}
    {%- endfor -%}
    {{ return(default__get_empty_schema_sql(quoted)) }}
{% endmacro %}
