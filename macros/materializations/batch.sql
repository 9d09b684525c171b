{#-
  Runs a model's text in batch. Tables, and the queries of incremental models, are planned through slices, so that a 1-minute
  cumulate over a day costs about one pass over the rows, not 1440. Rewrites in a model's config are applied first.

  Views, `dbt show` and tests run the text almost as written, so that any engine can read a view. Ties of rankings are
  broken as in a table, and rows are left out that a stream drops because of their event time. With windows that omit
  steps (`emit='on_change'`), which needs planning, they run the text of a table.
-#}

{% macro spark_streaming__create_table_as(temporary, relation, compiled_code, language='sql') -%}
  {%- if language == 'sql' -%}
    {%- set compiled_code = _planned_in_batch(compiled_code) -%}
    {%- if not temporary -%}
      {%- do adapter.check_query_column_names(config, compiled_code, model if model is defined else none) -%}
    {%- endif -%}
  {%- endif -%}
  {%- set existing = none if temporary else load_cached_relation(relation) -%}
  {#- A stream over this table begins with its first snapshot, and can't read one that replaces rows. -#}
  {%- if existing is not none and existing.is_iceberg and should_full_refresh() -%}
    {%- do adapter.drop_replaced(existing) -%}
    {%- set existing = none -%}
  {%- endif -%}
  {%- set statement = spark__create_table_as(temporary, relation, compiled_code, language) -%}
  {%- if language == 'python' -%}
    {#- The columns of a Python model are known only while it runs. -#}
    {%- set statement = statement | replace('\ndf.write.mode(', '\ncheck_column_names(df.columns)\ndf.write.mode(') -%}
  {%- endif -%}
  {%- if language == 'sql' and existing is none -%}
    {%- set statement = statement | replace('create or replace table', 'create table', 1) -%}
  {%- endif -%}
  {{ return(statement) }}
{%- endmacro %}


{% macro _planned_in_batch(sql) -%}
  {%- set sql = adapter.rewrite_by_config(sql, model if model is defined else none) -%}
  {{ return(adapter.batch_text(sql, graph, model if model is defined else none)) }}
{%- endmacro %}


{% macro spark_streaming__create_view_as(relation, sql) -%}
  {{ return(spark__create_view_as(relation, adapter.view_text(sql, graph, model if model is defined else none))) }}
{%- endmacro %}


{% macro spark_streaming__get_limit_sql(sql, limit) -%}
  {{ return(default__get_limit_sql(adapter.dbt_show_text(sql, graph, model if model is defined else none), limit)) }}
{%- endmacro %}


{% macro spark_streaming__get_test_sql(main_sql, fail_calc, warn_if, error_if, limit) -%}
  {{ return(default__get_test_sql(adapter.whole_input_text(main_sql, graph, model if model is defined else none), fail_calc, warn_if, error_if, limit)) }}
{%- endmacro %}


{% macro spark_streaming__get_unit_test_sql(main_sql, expected_fixture_sql, expected_column_names) -%}
  {{ return(default__get_unit_test_sql(adapter.whole_input_text(main_sql, graph, model if model is defined else none), expected_fixture_sql, expected_column_names)) }}
{%- endmacro %}
