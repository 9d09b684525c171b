{#-
  Batch of the same text: tables (and what incremental models compute) are planned through slices, so that
  a 1-minute cumulate over a day costs about one pass over the rows, not 1440. Views stay as written: any
  engine can read them. Rewrites that a model's config asks for come first.
-#}

{% macro spark_streaming__create_table_as(temporary, relation, compiled_code, language='sql') -%}
  {%- if language == 'sql' -%}
    {%- set compiled_code = adapter.rewrite_by_config(compiled_code, model if model is defined else none) -%}
    {%- set compiled_code = adapter.batch_text(compiled_code) -%}
  {%- endif -%}
  {%- set existing = none if temporary else load_cached_relation(relation) -%}
  {#- A stream over this table begins with its first snapshot, and can't read one that replaces. -#}
  {%- if existing is not none and existing.is_iceberg and should_full_refresh() -%}
    {%- do adapter.drop_relation(existing) -%}
    {%- set existing = none -%}
  {%- endif -%}
  {%- set statement = spark__create_table_as(temporary, relation, compiled_code, language) -%}
  {%- if language == 'sql' and existing is none -%}
    {%- set statement = statement | replace('create or replace table', 'create table', 1) -%}
  {%- endif -%}
  {{ return(statement) }}
{%- endmacro %}
