{# Relations: names, replacing, dropping. #}

{% macro spark_streaming__make_temp_relation(base_relation, suffix='__dbt_tmp') %}
    {#- A temporary view. Its type says so, as it is dropped by type. It has no schema in its name, and all threads share
        the session: what runs beside it, of the same name in another schema, has to have another one. -#}
    {% set own = '_' ~ local_md5(model['unique_id'])[:8] if model else '' %}
    {% set temporary = base_relation.incorporate(
        path={"identifier": base_relation.identifier ~ suffix ~ own}, type="view"
    ) %}
    {{ return(temporary.include(database=false, schema=false)) }}
{% endmacro %}


{% macro spark_streaming__drop_schema(relation) -%}
    {#- What was in it is gone already (see the adapter's drop_schema): no catalog of Iceberg's cascades. -#}
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
    {#- A view comes in its place. -#}
    {%- do adapter.drop_replaced(old_relation) -%}
{%- endmacro %}


{% macro drop_with_files(relation) %}
    {#- Another table of this name may get this folder, and nothing would know the files any more. -#}
    {%- call statement('drop_relation', auto_begin=False) -%}
        drop table if exists {{ relation }} purge
    {%- endcall -%}
{% endmacro %}


{% macro list_relations_show_tables_without_caching(schema_relation) %}
    {#- dbt-spark writes the schema as it is, and so the table below. -#}
    {%- call statement('list_relations_without_caching_show_tables', fetch_result=True) -%}
        show tables in {{ schema_relation.without_identifier() }} like '*'
    {%- endcall -%}
    {%- do return(load_result('list_relations_without_caching_show_tables').table) -%}
{% endmacro %}
