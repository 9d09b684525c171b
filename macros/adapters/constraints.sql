{#
    Contracts. Iceberg stores no constraints, and the columns of a table that is created from a query can't be NOT NULL.
    So the query itself checks `not_null` and `check`: a row that violates one makes it fail, and the table is unchanged.
#}

{% macro spark_streaming__get_column_names() %}
    {#-
        The select list around a query with a contract. Like dbt's own, but it quotes each name that needs quotes,
        whatever the column's `quote` is, and the first column's expression checks the contract. A WHERE wouldn't do:
        Spark moves it below joins and HAVING, where it would check rows that the query drops.
    -#}
    {%- for name, column in model['columns'].items() -%}
        {%- set quoted = adapter.quote_name(name, column.get('quote') or false) -%}
        {%- set cases = adapter.contract_case_branches(model) if loop.first else '' -%}
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


{% macro spark_streaming__persist_constraints(relation, model) %}
    {#- dbt-spark adds the constraints of a Delta table after its rows are written. Here the query has checked the rows. -#}
{% endmacro %}
