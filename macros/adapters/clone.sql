{# `dbt clone`: Iceberg has no shallow copies, so a clone is a view, as dbt does it on such platforms. #}

{% macro spark_streaming__can_clone_table() %}
    {{ return(false) }}
{% endmacro %}


{% materialization clone, adapter='spark_streaming' %}
    {%- if defer_relation and (flags.FULL_REFRESH or not load_cached_relation(this)) -%}
        {%- do adapter.note_clone(model, defer_relation) -%}
    {%- endif -%}
    {#- dbt-spark's own insists on Delta. -#}
    {{ return(materialization_clone_default()) }}
{% endmaterialization %}
