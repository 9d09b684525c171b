{# Seeds: one insert, from a temporary view of the file's rows. #}

{% macro spark_streaming__create_csv_table(model, agate_table) %}
    {%- do adapter.check_column_names(this, agate_table.column_names, model, config) -%}
    {{ return(spark__create_csv_table(model, agate_table)) }}
{% endmacro %}


{% macro spark_streaming__reset_csv_table(model, full_refresh, old_relation, agate_table) %}
    {#- Before the old table is dropped. -#}
    {%- do adapter.check_column_names(this, agate_table.column_names, model, config) -%}
    {{ return(spark__reset_csv_table(model, full_refresh, old_relation, agate_table)) }}
{% endmacro %}


{% macro spark_streaming__load_csv_rows(model, agate_table) %}
    {% set overrides = model['config'].get('column_types', {}) %}
    {% set rows = adapter.stage_seed(this, agate_table) %}
    {% set sql %}
        insert into {{ this.render() }}
        select
            {%- for column in agate_table.column_names %}
            cast({{ adapter.quote(column) }} as {{ overrides.get(column, adapter.convert_type(agate_table, loop.index0)) }})
            {{- ',' if not loop.last }}
            {%- endfor %}
        from {{ rows }}
    {% endset %}
    {% do adapter.add_query(sql) %}
    {% do adapter.add_query('drop view ' ~ rows) %}
    {{ return(sql) }}
{% endmacro %}
