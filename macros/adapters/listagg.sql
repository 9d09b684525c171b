{# dbt-spark's listagg ignores the order; Spark 4 has one that keeps it. #}

{% macro spark_streaming__listagg(measure, delimiter_text, order_by_clause, limit_num) -%}
    {%- if not order_by_clause -%}
        {{ return(spark__listagg(measure, delimiter_text, order_by_clause, limit_num)) }}
    {%- elif not limit_num -%}
        {{ return('listagg(' ~ measure ~ ', ' ~ delimiter_text ~ ') within group (' ~ order_by_clause ~ ')') }}
    {%- endif -%}
    {#- The first values of the ordered list, which is split at a character that no value has. -#}
    {%- set listed = "listagg(" ~ measure ~ ", '\\u001f') within group (" ~ order_by_clause ~ ")" -%}
    {{ return("array_join(slice(split(" ~ listed ~ ", '\\u001f'), 1, " ~ limit_num ~ "), " ~ delimiter_text ~ ")") }}
{%- endmacro %}
