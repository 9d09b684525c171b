{#
    Contracts. Iceberg keeps no constraints, and a table that is created by a query has no column that is
    NOT NULL. So `not_null` and `check` are looked after in the query itself: a row that breaks one ends it,
    and the table stays as it was.
#}

{% macro spark_streaming__get_column_names() %}
    {#-
        The select list around a query with a contract. As dbt's own, but a name that needs quotes has them, whatever a
        column says of `quote`, and the first column is there if the row keeps the contract. Spark moves a WHERE below
        joins and HAVING, where it would be asked of rows that the query drops.
    -#}
    {%- for name, column in model['columns'].items() -%}
        {%- set quoted = adapter.quote_name(name, column.get('quote') or false) -%}
        {%- set cases = adapter.contract_cases(model) if loop.first else '' -%}
        {{ 'case ' ~ cases ~ ' else ' ~ quoted ~ ' end as ' if cases }}{{ quoted }}{{ ', ' if not loop.last }}
    {%- endfor -%}
{% endmacro %}


{% macro spark_streaming__get_empty_schema_sql(columns) %}
    {%- set quoted = {} -%}
    {%- for name, column in columns.items() -%}
        {%- do quoted.update({name: dict(column, name=adapter.quote_name(column['name'], column.get('quote') or false), quote=false)}) -%}
    {%- endfor -%}
    {{ return(default__get_empty_schema_sql(quoted)) }}
{% endmacro %}
