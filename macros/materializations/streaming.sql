{#-
  streaming_table is the general materialization; window_aggregate and cumulate run the same engine and
  only add what their names promise of the query.

    plan the text (nothing is touched if it can't be)
    → make the empty table, by the text itself with no rows, so that contract and types are Spark's
    → run the stream → docs, grants, hooks
-#}

{% materialization streaming_table, adapter='spark_streaming' %}
  {{ return(_materialize_stream('streaming_table')) }}
{% endmaterialization %}

{% materialization window_aggregate, adapter='spark_streaming' %}
  {{ return(_materialize_stream('window_aggregate')) }}
{% endmaterialization %}

{% materialization cumulate, adapter='spark_streaming' %}
  {{ return(_materialize_stream('cumulate')) }}
{% endmaterialization %}

{% materialization topn, adapter='spark_streaming' %}
  {{ return(_materialize_stream('topn')) }}
{% endmaterialization %}


{% macro _materialize_stream(materialized) %}
  {%- set target = this.incorporate(type='table') -%}
  {%- set existing = load_cached_relation(this) -%}
  {#- dbt looked when it began. What is there by now must not be taken for nothing, and begun anew. -#}
  {%- if existing is none and adapter.has_stream_table(model) -%}
    {%- set existing = target -%}
  {%- endif -%}
  {%- set full_refresh = should_full_refresh() -%}

  {%- set anew = existing is none or full_refresh or not existing.is_table or adapter.stream_begins(model) -%}

  {%- set is_asked_for = anew or var('flush', false) or var('bootstrap', none) or var('keep_state', false) -%}
  {%- set kept = adapter.kept_running(model, is_asked_for) -%}
  {%- if kept is not none -%}
    {%- do store_result('main', kept) -%}
    {{ return({'relations': [target]}) }}
  {%- endif -%}

  {%- do adapter.check_stream(model, sql, graph, anew, var('bootstrap', none)) -%}

  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}

  {%- if not anew and config.get('contract').enforced -%}
    {#- One that is made asks when it is made. -#}
    {%- do get_assert_columns_equivalent(sql) -%}
  {%- endif -%}
  {%- set gives = adapter.check_columns(model, sql, graph, anew) -%}

  {%- if existing is none -%}
    {#- A catalog may hide what it has. Only once the table could be made, what is left of an earlier one is forgotten. -#}
    {%- do run_query(_create_streaming_table(target, sql, 'create table')) -%}
    {%- do persist_constraints(target, model) -%}
    {%- do adapter.reset_stream(model) -%}
  {%- elif anew -%}
    {%- do adapter.reset_stream(model) -%}
    {%- if not existing.is_table -%}
      {%- do adapter.drop_relation(existing) -%}
    {%- endif -%}
    {%- do run_query(_create_streaming_table(target, sql)) -%}
    {%- do persist_constraints(target, model) -%}
  {%- endif -%}

  {#- History that was asked for anew is one micro-batch; a first run keeps the limits that its sources have. -#}
  {%- set response = adapter.run_stream(
    model, sql, graph, flush=var('flush', false), at_once=full_refresh, keep_state=var('keep_state', false),
    bootstrap=var('bootstrap', none), gives=gives
  ) -%}
  {%- do store_result('main', response) -%}

  {%- set should_revoke = should_revoke(existing, full_refresh_mode=true) -%}
  {%- do apply_grants(target, config.get('grants'), should_revoke=should_revoke) -%}
  {%- do persist_docs(target, model) -%}

  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {{ run_hooks(post_hooks, inside_transaction=False) }}

  {{ return({'relations': [target]}) }}
{% endmacro %}


{#- CREATE … AS would leave a snapshot that overwrites, and streams that read this table could not pass it. -#}
{% macro _create_streaming_table(target, sql, create='create or replace table') -%}
  {%- set contract = config.get('contract') -%}
  {%- if contract.enforced -%}
    {%- do get_assert_columns_equivalent(sql) -%}
  {%- endif -%}
  {%- set columns = adapter.query_columns(sql, model.columns.keys() | list if contract.enforced else none) -%}
  {{ create }} {{ target }} (
    {%- for column in columns %}
    {{ column.quoted }} {{ column.dtype }}{{ ',' if not loop.last }}
    {%- endfor %}
  )
  {{ file_format_clause() }}
  {{ options_clause() }}
  {{ adapter.stream_tblproperties(model, config.get('tblproperties')) }}
  {{ partition_cols(label="partitioned by") }}
  {{ location_clause() }}
  {{ comment_clause() }}
{%- endmacro %}
