{#-
  The windowing table functions: each is called in FROM, and prints a subquery in plain Spark SQL with a hint for the
  planner. Python makes the text (adapter/query/windows/expansion.py). A project may override one by a macro named
  <prefix>__tumble and a dispatch config.
-#}

{% macro tumble(relation, time_col, size, offset='0 seconds', time_zone=none) -%}
  {{ return(adapter.dispatch('tumble', 'dbt')(relation, time_col, size, offset, time_zone)) }}
{%- endmacro %}

{% macro default__tumble(relation, time_col, size, offset, time_zone) -%}
  {{ return(adapter.expand_window('tumble', relation, time_col, [size], offset=offset, time_zone=time_zone)) }}
{%- endmacro %}

{% macro hop(relation, time_col, slide, size, offset='0 seconds', time_zone=none) -%}
  {{ return(adapter.dispatch('hop', 'dbt')(relation, time_col, slide, size, offset, time_zone)) }}
{%- endmacro %}

{% macro default__hop(relation, time_col, slide, size, offset, time_zone) -%}
  {{ return(adapter.expand_window('hop', relation, time_col, [slide, size], offset=offset, time_zone=time_zone)) }}
{%- endmacro %}

{% macro cumulate(relation, time_col, step, max_size, offset='0 seconds', emit='every_step', time_zone=none) -%}
  {{ return(adapter.dispatch('cumulate', 'dbt')(relation, time_col, step, max_size, offset, emit, time_zone)) }}
{%- endmacro %}

{% macro default__cumulate(relation, time_col, step, max_size, offset, emit, time_zone) -%}
  {{ return(adapter.expand_window(
      'cumulate', relation, time_col, [step, max_size], offset=offset, emit=emit, time_zone=time_zone
  )) }}
{%- endmacro %}

{% macro session(relation, time_col, gap, partition_by=[], time_zone=none) -%}
  {{ return(adapter.dispatch('session', 'dbt')(relation, time_col, gap, partition_by, time_zone)) }}
{%- endmacro %}

{% macro default__session(relation, time_col, gap, partition_by, time_zone) -%}
  {{ return(adapter.expand_window(
      'session', relation, time_col, [gap], partition_by=partition_by, time_zone=time_zone
  )) }}
{%- endmacro %}

{% macro dynamic_cumulate(relation, time_col, step, gap, partition_by=[], time_zone=none) -%}
  {{ return(adapter.dispatch('dynamic_cumulate', 'dbt')(relation, time_col, step, gap, partition_by, time_zone)) }}
{%- endmacro %}

{% macro default__dynamic_cumulate(relation, time_col, step, gap, partition_by, time_zone) -%}
  {{ return(adapter.expand_window(
      'dynamic_cumulate', relation, time_col, [step, gap], partition_by=partition_by, time_zone=time_zone
  )) }}
{%- endmacro %}

{% macro stream(relation) -%}
  {{ return(adapter.dispatch('stream', 'dbt')(relation)) }}
{%- endmacro %}

{% macro default__stream(relation) -%}
  {{ return(adapter.expand_stream(relation)) }}
{%- endmacro %}

{% macro as_of(relation, time, key=none) -%}
  {{ return(adapter.dispatch('as_of', 'dbt')(relation, time, key)) }}
{%- endmacro %}

{% macro default__as_of(relation, time, key) -%}
  {{ return(adapter.expand_as_of(relation, time, key, graph, model)) }}
{%- endmacro %}
