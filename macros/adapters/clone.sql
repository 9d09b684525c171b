{# `dbt clone` makes a view, dbt's way on platforms without shallow copies, which Iceberg doesn't have. #}

{% macro spark_streaming__can_clone_table() %}
    {{ return(false) }}
{% endmacro %}


{% materialization clone, adapter='spark_streaming' %}
    {%- if defer_relation and (flags.FULL_REFRESH or not load_cached_relation(this)) -%}
        {%- do adapter.note_clone(model, defer_relation) -%}
    {%- endif -%}
    {#- dbt-spark's own requires Delta. -#}
    {{ return(materialization_clone_default()) }}
{% endmaterialization %}
