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
    {%- for condition in adapter.contract_conditions(model) %}
    {{ 'where' if loop.first else 'and' }} {{ condition }}
    {%- endfor %}
{%- endmacro %}


{% macro spark_streaming__get_column_names() %}
    {#- Of any name: quotes change nothing else in Spark, whatever a column says of `quote`. -#}
    {%- for name in model['columns'] -%}
        {{ adapter.quote_name(name) }}{{ ', ' if not loop.last }}
    {%- endfor -%}
{% endmacro %}


{% macro spark_streaming__get_empty_schema_sql(columns) %}
    {%- set quoted = {} -%}
    {%- for name, column in columns.items() -%}
        {%- do quoted.update({name: dict(column, name=adapter.quote_name(column['name']), quote=false)}) -%}
    {%- endfor -%}
    {{ return(default__get_empty_schema_sql(quoted)) }}
{% endmacro %}
