{#-
  The statements of the incremental strategies. They are dbt's own hooks, so that a project can call one from a strategy
  of its own, or override it.
-#}

{% macro spark_streaming__get_incremental_append_sql(arguments) %}
  {%- set columns = _shared_columns(arguments) -%}
  {%- set listed = columns | map(attribute='quoted') | join(', ') -%}
  insert into {{ arguments['target_relation'] }} ({{ listed }})
  select {{ listed }} from {{ adapter.rows_in_table_order_sql(model, arguments['temp_relation'], columns) }}
{% endmacro %}


{% macro spark_streaming__get_incremental_merge_sql(arguments) %}
  {{ get_merge_sql(
      arguments['target_relation'], arguments['temp_relation'], arguments['unique_key'],
      arguments['dest_columns'], arguments['incremental_predicates']
  ) }}
{% endmacro %}


{% macro spark_streaming__get_incremental_delete_insert_sql(arguments) %}
  {#- dbt's own is a DELETE and an INSERT, and a reader between them misses the rows. -#}
  {%- set columns = _shared_columns(arguments) -%}
  {%- set keys = adapter.key_columns(model, arguments['unique_key'], columns) -%}
  {%- if not keys -%}
    {{ return(spark_streaming__get_incremental_append_sql(arguments)) }}
  {%- endif -%}
  {{ adapter.replace_keys_sql(
      arguments['target_relation'], arguments['temp_relation'], columns, keys, arguments['incremental_predicates']
  ) }}
{% endmacro %}


{% macro spark_streaming__get_incremental_insert_overwrite_sql(arguments) %}
  {#- Replaces the partitions that have new rows, or the whole table if it has no partitions. -#}
  {%- set target = arguments['target_relation'] -%}
  {%- set is_iceberg = load_relation(this).is_iceberg -%}
  {%- set columns = _shared_columns(arguments) -%}
  {%- do adapter.check_partitions(model, columns, target if is_iceberg else none) -%}
  {%- set rows = adapter.rows_in_table_order_sql(model, arguments['temp_relation'], columns) -%}
  {%- if is_iceberg and not config.get('partition_by') -%}
    {#- Not INSERT OVERWRITE: another model may have left the session in dynamic mode, in which a query without rows would replace nothing. -#}
    {{ return(adapter.replace_all_sql(target, rows, columns)) }}
  {%- endif -%}
  {%- if config.get('partition_by') -%}
    {%- do run_query('set spark.sql.sources.partitionOverwriteMode = dynamic') -%}
  {%- endif -%}
  {%- set listed = columns | map(attribute='quoted') | join(', ') -%}
  insert overwrite {{ 'table' if not is_iceberg }} {{ target }}
  {{ partition_cols(label="partition") if not is_iceberg }}
  ({{ listed }})
  select {{ listed }} from {{ rows }}
{% endmacro %}


{% macro spark_streaming__get_incremental_microbatch_sql(arguments) %}
  {%- if config.get('file_format') in ('iceberg', 'delta') and arguments['replaced'] -%}
    {{ return(_replace_range_sql(arguments)) }}
  {%- endif -%}
  {{ return(spark_streaming__get_incremental_insert_overwrite_sql(arguments)) }}
{% endmacro %}


{% macro get_incremental_window_overwrite_sql(arguments) %}
  {{ return(adapter.dispatch('get_incremental_window_overwrite_sql', 'dbt')(arguments)) }}
{% endmacro %}

{% macro default__get_incremental_window_overwrite_sql(arguments) %}
  {{ return(_replace_range_sql(arguments)) }}
{% endmacro %}


{% macro _replace_range_sql(arguments) %}
  {%- if arguments['replaced'] == 'false' -%}
    {#- `--empty` replaces and adds nothing. Spark can't plan a MERGE that never matches. -#}
    {{ return(spark_streaming__get_incremental_append_sql(arguments)) }}
  {%- endif -%}
  {%- set columns = _shared_columns(arguments) -%}
  {{ return(adapter.replace_where_sql(
      arguments['target_relation'], adapter.rows_in_table_order_sql(model, arguments['temp_relation'], columns), columns,
      arguments['replaced'], arguments['incremental_predicates'], arguments['divided']
  )) }}
{% endmacro %}


{% macro _shared_columns(arguments) %}
  {#- The table's columns that the query has, too: it may have fewer (on_schema_change: ignore, append_new_columns). -#}
  {%- set names = adapter.get_columns_in_relation(arguments['temp_relation']) | map(attribute='name') | map('lower') | list -%}
  {%- set shared = [] -%}
  {%- for column in adapter.get_columns_in_relation(arguments['target_relation']) if column.name | lower in names -%}
    {%- do shared.append(column) -%}
  {%- endfor -%}
  {{ return(shared) }}
{% endmacro %}
