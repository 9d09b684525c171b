{#-
  Seeds are loaded by one INSERT from a temporary view of the file's rows.

  Streams may read a seed's table, and can't continue with a new one. So the table is kept if its definition is the same
  and the file still has all of its rows. Then only new rows of the file are added.
-#}

{% macro spark_streaming__create_csv_table(model, agate_table) %}
    {%- do adapter.check_column_names(this, agate_table.column_names, model, config) -%}
    {%- set sql = spark__create_csv_table(model, agate_table) -%}
    {%- do adapter.record_seed_definition(this, _seed_definition(model, agate_table)) -%}
    {{ return(sql) }}
{% endmacro %}


{% macro spark_streaming__reset_csv_table(model, full_refresh, old_relation, agate_table) %}
    {#- Checked before the old table is dropped. -#}
    {%- do adapter.check_column_names(this, agate_table.column_names, model, config) -%}
    {%- if not full_refresh and _seed_table_is_kept(model, agate_table) -%}
        {{ return('') }}
    {%- endif -%}
    {%- do adapter.drop_replaced(old_relation) -%}
    {{ return(create_csv_table(model, agate_table)) }}
{% endmacro %}


{% macro spark_streaming__load_csv_rows(model, agate_table) %}
    {%- set stored = run_query('select count(*) from ' ~ this.render()).rows[0][0] | int -%}
    {%- if stored == agate_table.rows | length -%}
        {{ return('') }}
    {%- endif -%}
    {% set rows = adapter.stage_seed(this, agate_table) %}
    {% set sql %}
        insert into {{ this.render() }}
        {{ _seed_rows(model, agate_table, rows) }}
        {%- if stored %}
        except all select * from {{ this.render() }}
        {%- endif %}
    {% endset %}
    {% do adapter.add_query(sql) %}
    {% do adapter.add_query('drop view ' ~ rows) %}
    {{ return(sql) }}
{% endmacro %}


{% macro _seed_table_is_kept(model, agate_table) %}
    {%- if not adapter.is_seed_defined_as(this, _seed_definition(model, agate_table), agate_table.column_names) -%}
        {{ return(false) }}
    {%- endif -%}
    {%- set rows = adapter.stage_seed(this, agate_table) -%}
    {%- set removed = run_query(
        'select * from ' ~ this.render() ~ ' except all ' ~ _seed_rows(model, agate_table, rows) ~ ' limit 1'
    ) -%}
    {%- do adapter.add_query('drop view ' ~ rows) -%}
    {{ return(removed.rows | length == 0) }}
{% endmacro %}


{% macro _seed_rows(model, agate_table, view) -%}
    select
        {%- for column in agate_table.column_names %}
        cast({{ adapter.quote(column) }} as {{ _seed_type(model, agate_table, loop.index0) }})
        {{- ',' if not loop.last }}
        {%- endfor %}
    from {{ view }}
{%- endmacro %}


{% macro _seed_definition(model, agate_table) -%}
    {%- for column in agate_table.column_names %}
    {{ adapter.quote(column) }} {{ _seed_type(model, agate_table, loop.index0) }},
    {%- endfor %}
    {{ file_format_clause() }}
    {{ partition_cols(label='partitioned by') }}
    {{ clustered_cols(label='clustered by') }}
    {{ location_clause() }}
{%- endmacro %}


{% macro _seed_type(model, agate_table, place) -%}
    {%- set declared = model['config'].get('column_types', {}) -%}
    {{- declared.get(agate_table.column_names[place], adapter.convert_type(agate_table, place)) -}}
{%- endmacro %}
