{#-
  The commands of dbt-stream where only dbt can be run: `dbt run-operation flush --args '{model: orders}'`. Each runs in a
  process of its own that reads the project again, as on the command line.
-#}

{% macro status(select=none, exclude=none, state=false) %}
  {%- set arguments = ['--state'] if state else [] -%}
  {%- for option, given in (('--select', select), ('--exclude', exclude)) if given is not none -%}
    {%- do arguments.extend([option] + ([given] if given is string else given)) -%}
  {%- endfor -%}
  {%- do print(adapter.dbt_stream('status', arguments)) -%}
{% endmacro %}

{% macro clean(older_than='3 days', dropped=false, dry_run=false, select=none, exclude=none, remove=false) %}
  {%- set arguments = ['--older-than', older_than] -%}
  {%- if dropped -%}{%- do arguments.append('--dropped') -%}{%- endif -%}
  {%- if remove -%}{%- do arguments.append('--yes') -%}{%- endif -%}
  {%- if dry_run -%}{%- do arguments.append('--dry-run') -%}{%- endif -%}
  {%- for option, given in (('--select', select), ('--exclude', exclude)) if given is not none -%}
    {%- do arguments.extend([option] + ([given] if given is string else given)) -%}
  {%- endfor -%}
  {%- do print(adapter.dbt_stream('clean', arguments)) -%}
{% endmacro %}

{% macro flush(model) %}
  {%- do print(adapter.dbt_stream('flush', [model])) -%}
{% endmacro %}

{% macro verify(model) %}
  {%- do print(adapter.dbt_stream('verify', [model])) -%}
{% endmacro %}

{% macro stop(model, timeout=60) %}
  {%- do print(adapter.dbt_stream('stop', [model, '--timeout', timeout])) -%}
{% endmacro %}

{% macro reset(model) %}
  {%- do print(adapter.dbt_stream('reset', [model, '--yes'])) -%}
{% endmacro %}

{% macro state_show(model, sample=0, keys=none) %}
  {%- set arguments = ['show', model, '--sample', sample] -%}
  {%- for key in ([keys] if keys is string else keys or []) -%}
    {%- do arguments.extend(['--key', key]) -%}
  {%- endfor -%}
  {%- do print(adapter.dbt_stream('state', arguments)) -%}
{% endmacro %}

{% macro state_diff(model) %}
  {%- do print(adapter.dbt_stream('state', ['diff', model])) -%}
{% endmacro %}

{% macro state_savepoint(model, name=none, delete=none) %}
  {%- set arguments = ['savepoint', model] -%}
  {%- if name is not none -%}{%- do arguments.append(name) -%}{%- endif -%}
  {%- if delete is not none -%}{%- do arguments.extend(['--delete', delete]) -%}{%- endif -%}
  {%- do print(adapter.dbt_stream('state', arguments)) -%}
{% endmacro %}

{% macro state_restore(model, name) %}
  {%- do print(adapter.dbt_stream('state', ['restore', model, name])) -%}
{% endmacro %}

{% macro state_undo(model) %}
  {%- do print(adapter.dbt_stream('state', ['undo', model])) -%}
{% endmacro %}

{% macro state_edit(model, sql=none, source=none, dry_run=false) %}
  {%- set arguments = ['edit', model] -%}
  {%- if sql is not none -%}{%- do arguments.extend(['--sql', sql]) -%}{%- endif -%}
  {%- if source is not none -%}{%- do arguments.extend(['--from', source]) -%}{%- endif -%}
  {%- if dry_run -%}{%- do arguments.append('--dry-run') -%}{%- endif -%}
  {%- do print(adapter.dbt_stream('state', arguments)) -%}
{% endmacro %}

{% macro state_bootstrap(model, source) %}
  {%- do print(adapter.dbt_stream('state', ['bootstrap', model, '--from', source, '--yes'])) -%}
{% endmacro %}

{% macro state_clone(model, source=none, source_target=none, savepoint=none) %}
  {%- set arguments = ['clone', model] -%}
  {%- if source is not none -%}{%- do arguments.extend(['--from', source]) -%}{%- endif -%}
  {%- if source_target is not none -%}{%- do arguments.extend(['--from-target', source_target]) -%}{%- endif -%}
  {%- if savepoint is not none -%}{%- do arguments.extend(['--savepoint', savepoint]) -%}{%- endif -%}
  {%- do print(adapter.dbt_stream('state', arguments)) -%}
{% endmacro %}

{% macro deploy_init(model, full_refresh=false) %}
  {%- do print(adapter.dbt_stream('deploy', ['init', model] + (['--full-refresh'] if full_refresh else []))) -%}
{% endmacro %}

{% macro deploy_status(model) %}
  {%- do print(adapter.dbt_stream('deploy', ['status', model])) -%}
{% endmacro %}

{% macro deploy_await(model) %}
  {%- do print(adapter.dbt_stream('deploy', ['await', model])) -%}
{% endmacro %}

{% macro deploy_promote(model, force=false) %}
  {%- do print(adapter.dbt_stream('deploy', ['promote', model] + (['--force'] if force else []))) -%}
{% endmacro %}

{% macro deploy_rollback(model) %}
  {%- do print(adapter.dbt_stream('deploy', ['rollback', model])) -%}
{% endmacro %}

{% macro deploy_cleanup(model) %}
  {%- do print(adapter.dbt_stream('deploy', ['cleanup', model, '--yes'])) -%}
{% endmacro %}
