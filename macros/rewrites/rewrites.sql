{#-
  The rewrites: each is called around a SELECT, and prints another SELECT that gives the same rows. Python makes the text
  (adapter/query/rewrites/). In a streaming model it is the SELECT with a hint, which changes the layout of its state
  (adapter/query/rewrites/stream_rewrites.py). A project may override one by a macro named <prefix>__enum_distinct and a
  dispatch config.
-#}

{% macro enum_distinct() -%}
  {{ return(adapter.dispatch('enum_distinct', 'dbt')(caller())) }}
{%- endmacro %}

{% macro default__enum_distinct(sql) -%}
  {{ return(adapter.rewrite('enum_distinct', sql, config.get('materialized'))) }}
{%- endmacro %}

{% macro split_distinct(buckets=1024) -%}
  {{ return(adapter.dispatch('split_distinct', 'dbt')(caller(), buckets)) }}
{%- endmacro %}

{% macro default__split_distinct(sql, buckets) -%}
  {{ return(adapter.rewrite('split_distinct', sql, config.get('materialized'), buckets=buckets)) }}
{%- endmacro %}

{% macro split_topn(buckets=128) -%}
  {{ return(adapter.dispatch('split_topn', 'dbt')(caller(), buckets)) }}
{%- endmacro %}

{% macro default__split_topn(sql, buckets) -%}
  {{ return(adapter.rewrite('split_topn', sql, config.get('materialized'), buckets=buckets)) }}
{%- endmacro %}
