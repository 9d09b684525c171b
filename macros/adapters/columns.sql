{# Columns of existing tables. #}

{% macro spark_streaming__alter_relation_add_remove_columns(relation, add_columns, remove_columns) %}
    {%- do adapter.check_column_names(relation, (add_columns or []) | map(attribute='name') | list, model if model is defined else none) -%}
    {#- dbt-spark refuses to drop columns. Iceberg drops them in its metadata, without rewriting files. -#}
    {% if remove_columns %}
        {% call statement('drop_columns') %}
            alter table {{ relation.render() }} drop columns (
                {{ remove_columns | map(attribute='quoted') | join(', ') }}
            )
        {% endcall %}
    {% endif %}
    {% if add_columns %}
        {% call statement('add_columns') %}
            alter table {{ relation.render() }} add columns (
                {%- for column in add_columns %}
                {{ column.quoted }} {{ column.data_type }}{{ ',' if not loop.last }}
                {%- endfor %}
            )
        {% endcall %}
    {% endif %}
{% endmacro %}


{% macro spark_streaming__get_columns_in_relation(relation) %}
    {#- dbt-spark's macro returns the rows of DESCRIBE; dbt's snapshots need columns. -#}
    {{ return(adapter.get_columns_in_relation(relation)) }}
{% endmacro %}


{% macro spark_streaming__alter_column_type(relation, column_name, new_column_type) -%}
    {% call statement('alter_column_type') %}
        alter table {{ relation.render() }} alter column {{ adapter.quote_name(column_name) }} type {{ new_column_type }}
    {% endcall %}
{% endmacro %}


{% macro spark_streaming__create_columns(relation, columns) %}
    {{ spark_streaming__alter_relation_add_remove_columns(relation, columns, none) }}
{% endmacro %}


{% macro spark_streaming__escape_single_quotes(expression) -%}
    {#- dbt-spark's macro doesn't escape a backslash, which then escapes the quote at the end of a text. -#}
    {{ return(adapter.text_literal(expression)[1:-1]) }}
{%- endmacro %}


{% macro spark_streaming__sync_column_schemas(on_schema_change, target_relation, schema_changes_dict) %}
    {#- A type that can't be widened stops the run here, before any column is added or dropped. -#}
    {%- set types = schema_changes_dict['new_target_types'] -%}
    {%- if on_schema_change == 'sync_all_columns' and types and target_relation.is_iceberg -%}
        {%- set wider = adapter.widening_sql(
            model, target_relation, schema_changes_dict['target_columns'], schema_changes_dict['source_columns']
        ) -%}
        {%- for sql in wider -%}
            {%- do run_query(sql) -%}
        {%- endfor -%}
        {%- do schema_changes_dict.update({'new_target_types': []}) -%}
    {%- endif -%}
    {%- do default__sync_column_schemas(on_schema_change, target_relation, schema_changes_dict) -%}
{% endmacro %}
