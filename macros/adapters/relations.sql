{# Names of relations; lists of them; replacing and dropping them. #}

{% macro spark_streaming__generate_schema_name(custom_schema_name, node) -%}
    {#- A schema in another catalog, `catalog.schema`, is named in full. -#}
    {%- if custom_schema_name is not none and '.' in custom_schema_name -%}
        {{ custom_schema_name | trim }}
    {%- else -%}
        {{ default__generate_schema_name(custom_schema_name, node) }}
    {%- endif -%}
{%- endmacro %}


{% macro spark_streaming__make_temp_relation(base_relation, suffix='__dbt_tmp') %}
    {#- A temporary view; dbt drops it by its type. It has no schema, and all threads share the session, so its name
        differs for models with the same name in other schemas. -#}
    {% set digest = '_' ~ local_md5(model['unique_id'])[:8] if model else '' %}
    {% set temporary = base_relation.incorporate(
        path={"identifier": base_relation.identifier ~ suffix ~ digest}, type="view"
    ) %}
    {{ return(temporary.include(database=false, schema=false)) }}
{% endmacro %}


{% macro spark_streaming__drop_schema(relation) -%}
    {#- Without CASCADE, which Iceberg's catalogs don't support: the adapter's drop_schema has dropped its relations. -#}
    {%- call statement('drop_schema') -%}
        drop schema if exists {{ relation }}
    {%- endcall -%}
{% endmacro %}


{% macro spark_streaming__list_relations_without_caching(relation) -%}
    {%- call statement('list_relations_without_caching', fetch_result=true) -%}
        show table extended in {{ relation.without_identifier() }} like '*'
    {%- endcall -%}
    {%- do return(load_result('list_relations_without_caching').table) -%}
{% endmacro %}


{% macro spark_streaming__handle_existing_table(full_refresh, old_relation) -%}
    {#- Called before a view replaces the table. -#}
    {%- do adapter.drop_replaced(old_relation) -%}
{%- endmacro %}


{% macro drop_with_files(relation) %}
    {#- With PURGE: otherwise the files would stay in a folder that the next table of this name may get. -#}
    {%- call statement('drop_relation', auto_begin=False) -%}
        drop table if exists {{ relation }} purge
    {%- endcall -%}
{% endmacro %}


{% macro list_relations_show_tables_without_caching(schema_relation) %}
    {#- dbt-spark's macro doesn't quote the schema. -#}
    {%- call statement('list_relations_without_caching_show_tables', fetch_result=True) -%}
        show tables in {{ schema_relation.without_identifier() }} like '*'
    {%- endcall -%}
    {%- do return(load_result('list_relations_without_caching_show_tables').table) -%}
{% endmacro %}
