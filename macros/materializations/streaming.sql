{#-
  streaming_table is the general materialization. window_aggregate, cumulate and topn run the same engine, and check that
  the query is what their name says.

    plan the text (nothing is changed if that fails)
    → create the empty table with the query's columns, as Spark analyses them
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
  {#- dbt's cache is from the start of the run. A table that was created since must not be replaced by an empty one. -#}
  {%- if existing is none and adapter.has_stream_table(model) -%}
    {%- set existing = target -%}
  {%- endif -%}
  {%- set full_refresh = should_full_refresh() -%}

  {%- set is_new = existing is none or full_refresh or not existing.is_table or adapter.has_state_of_earlier_table(model) -%}

  {%- set flush = adapter.boolean_variable('flush', var('flush', none)) -%}
  {%- set keep_state = adapter.boolean_variable('keep_state', var('keep_state', none)) -%}
  {%- set has_own_task = is_new or flush or var('bootstrap', none) or keep_state -%}
  {%- set kept = adapter.skip_response(model, has_own_task) -%}
  {%- if kept is not none -%}
    {%- do store_result('main', kept) -%}
    {{ return({'relations': [target]}) }}
  {%- endif -%}

  {%- do adapter.check_stream(model, sql, graph, is_new, var('bootstrap', none)) -%}

  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}

  {%- if not is_new and config.get('contract').enforced -%}
    {#- `_create_streaming_table` checks a new table. -#}
    {%- do get_assert_columns_equivalent(sql) -%}
  {%- endif -%}
  {%- set gives = adapter.check_columns(model, sql, graph, is_new) -%}

  {%- if existing is none -%}
    {#- A catalog may hide a table, and then CREATE fails. Once it succeeds, the state of an earlier table can be deleted. -#}
    {%- do run_query(_create_streaming_table(target, sql, 'create table')) -%}
    {%- do persist_constraints(target, model) -%}
    {%- do adapter.reset_stream(model) -%}
  {%- elif is_new -%}
    {%- do adapter.reset_stream(model) -%}
    {%- if not existing.is_table -%}
      {%- do adapter.drop_relation(existing) -%}
    {%- endif -%}
    {%- do run_query(_create_streaming_table(target, sql)) -%}
    {%- do persist_constraints(target, model) -%}
  {%- endif -%}

  {#- A full refresh reads the history in one micro-batch; a first run keeps to the limits of its sources. -#}
  {%- set response = adapter.run_stream(
    model, sql, graph, flush=flush, at_once=full_refresh, keep_state=keep_state,
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


{#- Not CREATE … AS, whose snapshot overwrites: streams that read this table couldn't get past it. -#}
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
