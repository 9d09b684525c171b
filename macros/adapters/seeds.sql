{# Seeds: one insert, from a temporary view of the file's rows. #}

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
