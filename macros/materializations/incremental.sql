{#-
  incremental: like dbt-spark's materialization, which only has four strategies. Here a strategy is a macro that dbt looks
  up, so strategies of this package, of a project and of other packages work alike.

    check the configs (nothing is changed if they are invalid)
    → find the range to recompute, if the strategy works by ranges (adapter.plan_incremental)
    → create the table, or a temporary view of the new rows → change the columns → run the strategy's statement
    → docs, grants, hooks
-#}

{% materialization incremental, adapter='spark_streaming', supported_languages=['sql', 'python'] %}
  {%- set language = model['language'] -%}
  {%- set file_format = dbt_spark_validate_get_file_format(config.get('file_format', default='iceberg')) -%}
  {%- set strategy = 'default' if config.get('incremental_strategy') is none else config.get('incremental_strategy') -%}
  {%- set strategy_macro = adapter.get_incremental_strategy_macro(context, strategy) -%}
  {%- do adapter.check_incremental(model, strategy, file_format) -%}
  {%- set on_schema_change = incremental_validate_on_schema_change(config.get('on_schema_change'), default='ignore') -%}

  {%- set target = this.incorporate(type='table') -%}
  {%- set existing = load_relation(this) -%}
  {%- set is_rebuilt = existing is none or existing.is_view or should_full_refresh() -%}

  {{ run_hooks(pre_hooks) }}

  {%- set run = adapter.plan_incremental(model, compiled_code, strategy, none if is_rebuilt else existing) -%}

  {%- if is_rebuilt -%}
    {%- if existing is not none and not (file_format == 'delta' and existing.is_delta) -%}
      {%- if language == 'sql' -%}
        {#- create_table_as would check the names after the old table is dropped. -#}
        {%- do adapter.check_query_column_names(config, _planned_in_batch(run.sql), model) -%}
      {%- endif -%}
      {#- Not CREATE OR REPLACE, whose snapshot a stream over this table couldn't read. -#}
      {%- do adapter.drop_replaced(existing) -%}
    {%- endif -%}
    {%- call statement('main', language=language) -%}
      {{ create_table_as(False, target, run.sql, language) }}
    {%- endcall -%}
    {%- do persist_constraints(target, model) -%}
  {%- else -%}
    {%- set rows = _incremental_rows_relation(language) -%}
    {#- dbt refuses the contract of a Python model. -#}
    {%- set checked = language == 'sql' and config.get('contract').enforced -%}
    {%- if checked -%}
      {{ get_assert_columns_equivalent(run.sql) }}
    {%- endif -%}
    {%- call statement('create_tmp_relation', language=language) -%}
      {%- if checked -%}
        {{ create_temporary_view(rows, get_select_subquery(_planned_in_batch(run.sql))) }}
      {%- else -%}
        {{ create_table_as(True, rows, run.sql, language) }}
      {%- endif -%}
    {%- endcall -%}
    {%- set columns = process_schema_changes(on_schema_change, rows, existing)
        or adapter.get_columns_in_relation(existing) -%}
    {%- if file_format == 'iceberg' -%}
      {%- do adapter.mark_incremental_run(target) -%}
    {%- endif -%}
    {%- call statement('main') -%}
      {{ strategy_macro({
        'target_relation': target,
        'temp_relation': rows,
        'unique_key': config.get('unique_key'),
        'dest_columns': columns,
        'incremental_predicates': config.get('predicates') or config.get('incremental_predicates'),
        'replaced': run.condition,
        'divided': run.divided_files_query,
      }) }}
    {%- endcall -%}
    {%- call statement('drop_tmp_relation') -%}
      drop {{ 'view' if language == 'sql' else 'table' }} if exists {{ rows }}
    {%- endcall -%}
  {%- endif -%}

  {%- do apply_grants(
      target, config.get('grants'), should_revoke=should_revoke(existing, should_full_refresh())
  ) -%}
  {%- do persist_docs(target, model) -%}

  {{ run_hooks(post_hooks) }}

  {{ return({'relations': [target]}) }}
{% endmaterialization %}


{% macro _incremental_rows_relation(language) -%}
  {#- Concurrent batches have a relation each. -#}
  {%- set suffix = '__dbt_tmp' ~ ('_' ~ model['batch']['id'] if model.get('batch') else '') -%}
  {#- The rows of a Python model are a table, as in dbt-spark. It is replaced and dropped, so no other table may have its name. -#}
  {{ return(make_temp_relation(this, suffix) if language == 'sql'
      else this.incorporate(path={'identifier': this.identifier ~ suffix ~ '_' ~ local_md5(this | string)})) }}
{%- endmacro %}
