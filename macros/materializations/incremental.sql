{#-
  incremental: as dbt-spark's, which knows four strategies by name. Here a strategy is a macro, found as
  dbt finds it, so those of the package, of a project and of other packages work alike.

    check configs (nothing is touched if they don't go together)
    → find the range that is recomputed, where the strategy works by ranges (adapter.plan_incremental)
    → make the table, or a temporary view of the new rows → the columns' changes → the strategy's statement
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
  {%- set anew = existing is none or existing.is_view or should_full_refresh() -%}

  {{ run_hooks(pre_hooks) }}

  {%- set run = adapter.plan_incremental(model, compiled_code, strategy, none if anew else existing) -%}

  {%- if anew -%}
    {%- if existing is not none and not (file_format == 'delta' and existing.is_delta) -%}
      {%- if language == 'sql' -%}
        {#- create_table_as checks the names too late: the old table is gone then. -#}
        {%- do adapter.check_table_names(config, _planned_in_batch(run.sql), model) -%}
      {%- endif -%}
      {#- Not CREATE OR REPLACE: a stream over this table couldn't read the snapshot that leaves. -#}
      {%- do adapter.drop_replaced(existing) -%}
    {%- endif -%}
    {%- call statement('main', language=language) -%}
      {{ create_table_as(False, target, run.sql, language) }}
    {%- endcall -%}
    {%- do persist_constraints(target, model) -%}
  {%- else -%}
    {%- set rows = _incremental_rows_relation(language) -%}
    {#- dbt refuses a contract of a Python model. -#}
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
      {%- do adapter.note_incremental(target) -%}
    {%- endif -%}
    {%- call statement('main') -%}
      {{ strategy_macro({
        'target_relation': target,
        'temp_relation': rows,
        'unique_key': config.get('unique_key'),
        'dest_columns': columns,
        'incremental_predicates': config.get('predicates') or config.get('incremental_predicates'),
        'replaced': run.condition,
        'divided': run.divided,
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
  {#- Batches that run at once have one each. -#}
  {%- set suffix = '__dbt_tmp' ~ ('_' ~ model['batch']['id'] if model.get('batch') else '') -%}
  {#- Python's rows are a table, as in dbt-spark. It is replaced and dropped, so it has a name that nobody gives. -#}
  {{ return(make_temp_relation(this, suffix) if language == 'sql'
      else this.incorporate(path={'identifier': this.identifier ~ suffix ~ '_' ~ local_md5(this | string)})) }}
{%- endmacro %}
