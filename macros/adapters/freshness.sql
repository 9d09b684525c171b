{# When a source was last changed, from Iceberg's history: no scan of the table. #}

{% macro spark_streaming__get_relation_last_modified(information_schema, relations) -%}
    {%- call statement('last_modified', fetch_result=True) -%}
        {%- for relation in relations %}
        select
            '{{ relation.schema }}' as schema,
            '{{ relation.identifier }}' as identifier,
            max(made_current_at) as last_modified,
            {{ current_timestamp() }} as snapshotted_at
        from {{ relation.render() }}.history
        {%- if not loop.last %} union all {% endif %}
        {%- endfor %}
    {%- endcall -%}
    {{ return(load_result('last_modified')) }}
{%- endmacro %}
