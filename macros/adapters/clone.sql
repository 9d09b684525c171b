{# `dbt clone` makes a view, dbt's way on platforms without shallow copies, which Iceberg doesn't have. #}

{% macro spark_streaming__can_clone_table() %}
    {{ return(false) }}
{% endmacro %}


{% materialization clone, adapter='spark_streaming' %}
    {%- if defer_relation and (flags.FULL_REFRESH or not load_cached_relation(this)) -%}
        {%- do adapter.log_clone_notice(model, defer_relation) -%}
    {%- endif -%}
    {#- dbt-spark's own materialization requires Delta. -#}
    {{ return(materialization_clone_default()) }}
{% endmaterialization %}
