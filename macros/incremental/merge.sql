{# MERGE of an incremental model's rows. #}

{% macro spark_streaming__get_merge_sql(target, source, unique_key, dest_columns, incremental_predicates) %}
    {#-
        Like dbt-spark's, with named columns: `update set *` and `insert *` fail if the query has fewer columns than the
        table, which `on_schema_change: append_new_columns` and `ignore` allow.
    -#}
    {%- set shared = _shared_columns({'target_relation': target, 'temp_relation': source}) -%}
    {%- set updated = get_merge_update_columns(
        config.get('merge_update_columns'), config.get('merge_exclude_columns'), shared
    ) -%}
    {%- set predicates = [] + (incremental_predicates or []) -%}
    {%- for key in adapter.key_columns(model, unique_key, shared) -%}
        {%- do predicates.append('DBT_INTERNAL_SOURCE.' ~ key.quoted ~ ' <=> DBT_INTERNAL_DEST.' ~ key.quoted) -%}
    {%- else -%}
        {%- do predicates.append('false') -%}
    {%- endfor -%}
    merge into {{ target }} as DBT_INTERNAL_DEST
    using {{ source }} as DBT_INTERNAL_SOURCE
    on {{ predicates | join('\n    and ') }}
    {%- for name in updated %}
    {{- '\n    when matched then update set' if loop.first }}
        {{ name }} = DBT_INTERNAL_SOURCE.{{ name }}{{ ',' if not loop.last }}
    {%- endfor %}
    when not matched then insert ({{ shared | map(attribute='quoted') | join(', ') }})
    values (
        {%- for column in shared %}DBT_INTERNAL_SOURCE.{{ column.quoted }}{{ ', ' if not loop.last }}{% endfor -%}
    )
{% endmacro %}


{% macro spark_streaming__get_merge_update_columns(merge_update_columns, merge_exclude_columns, dest_columns) %}
    {{ return(
        adapter.merge_update_columns(model, merge_update_columns, merge_exclude_columns, dest_columns)
        | map(attribute='quoted') | list
    ) }}
{% endmacro %}
