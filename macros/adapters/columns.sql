{# Columns of tables that exist. #}

{% macro spark_streaming__alter_relation_add_remove_columns(relation, add_columns, remove_columns) %}
    {#- dbt-spark refuses to drop columns. Iceberg drops them in its metadata, without a rewrite. -#}
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
    {#- dbt-spark's gives the rows of DESCRIBE; dbt's snapshots ask for columns. -#}
    {{ return(adapter.get_columns_in_relation(relation)) }}
{% endmacro %}
