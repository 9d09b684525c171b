{# Snapshots: dbt's own materialization, which is newer than dbt-spark's copy. #}

{% materialization snapshot, adapter='spark_streaming' %}
    {{ return(materialization_snapshot_default()) }}
{% endmaterialization %}


{% macro spark_streaming__build_snapshot_staging_table(strategy, sql, target_relation) %}
    {#- A temporary view, which no other run sees and which ends with the session. -#}
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
    {#- Spark has no databases; dbt passes the database of the node, which is undefined. -#}
    {{ return(default__get_or_create_relation(none, schema, identifier, type)) }}
{% endmacro %}


{% macro spark_streaming__snapshot_staging_table(strategy, source_sql, target_relation) -%}
    {#- Like dbt's own, but it also matches rows by keys that have a NULL. -#}
    {% set columns = config.get('snapshot_table_column_names') or get_snapshot_table_column_names() %}
    {% if strategy.hard_deletes == 'new_record' %}
        {% set new_scd_id = snapshot_hash_arguments([columns.dbt_scd_id, snapshot_get_time()]) %}
    {% endif %}
    {%- set query = adapter.batch_text(source_sql, graph, model if model is defined else none) %}
    with snapshot_query as (

        {{ query }}

    ),

    snapshotted_data as (

        select {{ adapter.select_list_in_order_of(target_relation, query) }}, {{ unique_key_fields(strategy.unique_key) }}
        from {{ target_relation }}
        where
            {% if config.get('dbt_valid_to_current') %}
            {% set source_unique_key = columns.dbt_valid_to | trim %}
            {% set target_unique_key = config.get('dbt_valid_to_current') | trim %}

            {# Whether NULL equals NULL depends on a behavior flag of dbt. A current row may also have NULL, from before the config. #}
                ( {{ equals(source_unique_key, target_unique_key) }} or {{ source_unique_key }} is null )
            {% else %}
                {{ columns.dbt_valid_to }} is null
            {% endif %}

    ),

    insertions_source_data as (

        select *, {{ unique_key_fields(strategy.unique_key) }},
            {{ strategy.updated_at }} as {{ columns.dbt_updated_at }},
            {{ strategy.updated_at }} as {{ columns.dbt_valid_from }},
            {{ get_dbt_valid_to_current(strategy, columns) }},
            {{ strategy.scd_id }} as {{ columns.dbt_scd_id }}

        from snapshot_query
    ),

    updates_source_data as (

        select *, {{ unique_key_fields(strategy.unique_key) }},
            {{ strategy.updated_at }} as {{ columns.dbt_updated_at }},
            {{ strategy.updated_at }} as {{ columns.dbt_valid_from }},
            {{ strategy.updated_at }} as {{ columns.dbt_valid_to }}

        from snapshot_query
    ),

    {%- if strategy.hard_deletes == 'invalidate' or strategy.hard_deletes == 'new_record' %}

    deletes_source_data as (

        select *, {{ unique_key_fields(strategy.unique_key) }}
        from snapshot_query
    ),
    {% endif %}

    insertions as (

        select
            'insert' as dbt_change_type,
            source_data.*
          {%- if strategy.hard_deletes == 'new_record' -%}
            ,'False' as {{ columns.dbt_is_deleted }}
          {%- endif %}

        from insertions_source_data as source_data
        left outer join snapshotted_data
            on {{ _matches_key(strategy.unique_key) }}
            where snapshotted_data.{{ columns.dbt_scd_id }} is null
            or {{ strategy.row_changed }} {%- if strategy.hard_deletes == 'new_record' %} or snapshotted_data.{{ columns.dbt_is_deleted }} = 'True' {% endif %}

    ),

    updates as (

        select
            'update' as dbt_change_type,
            source_data.*,
            snapshotted_data.{{ columns.dbt_scd_id }}
          {%- if strategy.hard_deletes == 'new_record' -%}
            , snapshotted_data.{{ columns.dbt_is_deleted }}
          {%- endif %}

        from updates_source_data as source_data
        join snapshotted_data
            on {{ _matches_key(strategy.unique_key) }}
        where (
            {{ strategy.row_changed }}  {%- if strategy.hard_deletes == 'new_record' -%} or snapshotted_data.{{ columns.dbt_is_deleted }} = 'True' {% endif %}
        )
    )

    {%- if strategy.hard_deletes == 'invalidate' or strategy.hard_deletes == 'new_record' %}
    ,
    deletes as (

        select
            'delete' as dbt_change_type,
            source_data.* except (dbt_is_present),
            {{ snapshot_get_time() }} as {{ columns.dbt_valid_from }},
            {{ snapshot_get_time() }} as {{ columns.dbt_updated_at }},
            {{ snapshot_get_time() }} as {{ columns.dbt_valid_to }},
            snapshotted_data.{{ columns.dbt_scd_id }}
          {%- if strategy.hard_deletes == 'new_record' -%}
            , snapshotted_data.{{ columns.dbt_is_deleted }}
          {%- endif %}
        from snapshotted_data
        left join (select *, true as dbt_is_present from deletes_source_data) as source_data
            on {{ _matches_key(strategy.unique_key) }}
            where source_data.dbt_is_present is null

            {%- if strategy.hard_deletes == 'new_record' %}
            and not (
                --avoid updating the record's valid_to if the latest entry is marked as deleted
                snapshotted_data.{{ columns.dbt_is_deleted }} = 'True'
                and
                {% if config.get('dbt_valid_to_current') -%}
                    snapshotted_data.{{ columns.dbt_valid_to }} = {{ config.get('dbt_valid_to_current') }}
                {%- else -%}
                    snapshotted_data.{{ columns.dbt_valid_to }} is null
                {%- endif %}
            )
            {%- endif %}
    )
    {%- endif %}

    {%- if strategy.hard_deletes == 'new_record' %}
        {% set snapshotted_cols = get_list_of_column_names(get_columns_in_relation(target_relation)) %}
        {% set source_col_names = get_columns_in_query(source_sql) %}
    ,
    deletion_records as (

        select
            'insert' as dbt_change_type,
            {%- for col_name in source_col_names -%}
            {%- if col_name in snapshotted_cols -%}
            snapshotted_data.{{ adapter.quote(col_name) }},
            {%- else -%}
            source_data.{{ adapter.quote(col_name) }},
            {%- endif -%}
            {% endfor -%}
            {%- if strategy.unique_key | is_list -%}
                {%- for key in strategy.unique_key -%}
            snapshotted_data.{{ key }} as dbt_unique_key_{{ loop.index }},
                {% endfor -%}
            {%- else -%}
            snapshotted_data.dbt_unique_key as dbt_unique_key,
            {% endif -%}
            {{ snapshot_get_time() }} as {{ columns.dbt_valid_from }},
            {{ snapshot_get_time() }} as {{ columns.dbt_updated_at }},
            snapshotted_data.{{ columns.dbt_valid_to }} as {{ columns.dbt_valid_to }},
            {{ new_scd_id }} as {{ columns.dbt_scd_id }},
            'True' as {{ columns.dbt_is_deleted }}
        from snapshotted_data
        left join (select *, true as dbt_is_present from deletes_source_data) as source_data
            on {{ _matches_key(strategy.unique_key) }}
        where source_data.dbt_is_present is null
        and not (
            --avoid inserting a new record if the latest one is marked as deleted
            snapshotted_data.{{ columns.dbt_is_deleted }} = 'True'
            and
            {% if config.get('dbt_valid_to_current') -%}
                snapshotted_data.{{ columns.dbt_valid_to }} = {{ config.get('dbt_valid_to_current') }}
            {%- else -%}
                snapshotted_data.{{ columns.dbt_valid_to }} is null
            {%- endif %}
            )

    )
    {%- endif %}

    select {{ _checked_rows() }} from insertions
    union all
    select * from updates
    {%- if strategy.hard_deletes == 'invalidate' or strategy.hard_deletes == 'new_record' %}
    union all
    select * from deletes
    {%- endif %}
    {%- if strategy.hard_deletes == 'new_record' %}
    union all
    select {{ _checked_rows() }} from deletion_records
    {%- endif %}


{%- endmacro %}


{% macro _checked_rows() %}
    {#- Not a WHERE, with which Spark would also check rows that the snapshot has already. -#}
    {%- set cases = adapter.contract_case_branches(model) -%}
    {{- 'case ' ~ cases ~ ' else dbt_change_type end as dbt_change_type, * except (dbt_change_type)' if cases else '*' -}}
{% endmacro %}


{% macro _matches_key(unique_key) %}
    {%- set names = ['dbt_unique_key'] -%}
    {%- if unique_key is not string -%}
        {%- set names = [] -%}
        {%- for key in unique_key -%}{%- do names.append('dbt_unique_key_' ~ loop.index) -%}{%- endfor -%}
    {%- endif -%}
    {%- for name in names %}
            snapshotted_data.{{ name }} <=> source_data.{{ name }}{{ ' and' if not loop.last }}
    {%- endfor %}
{%- endmacro %}


{% macro spark_streaming__snapshot_hash_arguments(args) -%}
    {#- Like dbt-spark's, but NULL differs from an empty text, and a bar in a value doesn't separate values. -#}
    md5(
        {%- for arg in args -%}
        coalesce(replace(cast({{ arg }} as string), '|', '\\0|'), '\\0') {{- " || '|' || " if not loop.last -}}
        {%- endfor -%}
    )
{%- endmacro %}


{% macro spark_streaming__snapshot_merge_sql(target, source, insert_cols) %}
    {#- dbt's own names the columns, since the table may have more columns than the query. -#}
    {{ return(default__snapshot_merge_sql(target, source, insert_cols)) }}
{% endmacro %}
