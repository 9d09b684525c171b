{# Snapshots: dbt's own materialization, which is ahead of dbt-spark's copy of it. #}

{% materialization snapshot, adapter='spark_streaming' %}
    {{ return(materialization_snapshot_default()) }}
{% endmaterialization %}


{% macro spark_streaming__build_snapshot_staging_table(strategy, sql, target_relation) %}
    {#- A temporary view: no other run sees it, and it is gone with the session. -#}
    {% set temporary = make_temp_relation(target_relation) %}
    {% call statement('build_snapshot_staging_relation') %}
        {{ create_temporary_view(temporary, snapshot_staging_table(strategy, sql, target_relation)) }}
    {% endcall %}
    {{ return(temporary) }}
{% endmacro %}


{% macro spark_streaming__post_snapshot(staging_relation) %}
    {% call statement('drop_snapshot_staging_relation') %}
        drop view if exists {{ staging_relation }}
    {% endcall %}
{% endmacro %}


{% macro spark_streaming__get_or_create_relation(database, schema, identifier, type) %}
    {#- Spark has schemas only; dbt passes the node's database, which is undefined here. -#}
    {{ return(default__get_or_create_relation(none, schema, identifier, type)) }}
{% endmacro %}
