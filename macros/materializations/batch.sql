{#-
  Batch of the same text: tables (and what incremental models compute) are planned through slices, so that
  a 1-minute cumulate over a day costs about one pass over the rows, not 1440. Views stay as written: any
  engine can read them.
-#}

{% macro spark_streaming__create_table_as(temporary, relation, compiled_code, language='sql') -%}
  {%- if language == 'sql' -%}
    {%- set compiled_code = adapter.batch_text(compiled_code) -%}
  {%- endif -%}
  {{ return(spark__create_table_as(temporary, relation, compiled_code, language)) }}
{%- endmacro %}
