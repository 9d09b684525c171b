{# Clauses of CREATE, with quoted names and texts of configs. #}

{% macro spark_streaming__tblproperties_clause() -%}
    {%- set properties = config.get('tblproperties') -%}
    {%- if properties %}
    tblproperties (
        {%- for name, value in properties.items() if value is not none %}
        {{ adapter.text_literal(name) }} = {{ adapter.text_literal(value) }}{{ ',' if not loop.last }}
        {%- endfor %}
    )
    {%- endif %}
{%- endmacro %}


{% macro spark_streaming__options_clause() -%}
    {%- set options = dict(config.get('options') or {}) -%}
    {%- if config.get('file_format') == 'hudi' and config.get('unique_key') is not none -%}
        {%- if options.setdefault('primaryKey', config.get('unique_key')) != config.get('unique_key') -%}
            {{ exceptions.raise_compiler_error("unique_key and options('primaryKey') should be the same column(s).") }}
        {%- endif -%}
    {%- endif -%}
    {%- if options %}
    options (
        {%- for name, value in options.items() %}
        {{ adapter.text_literal(name) }} {{ adapter.text_literal(value) }}{{ ',' if not loop.last }}
        {%- endfor %}
    )
    {%- endif %}
{%- endmacro %}


{% macro spark_streaming__location_clause() %}
    {%- set root = config.get('location_root', validator=validation.any[basestring]) -%}
    {%- if root is not none %}
    location {{ adapter.text_literal(root ~ '/' ~ model['alias']) }}
    {%- endif %}
{%- endmacro %}


{% macro spark_streaming__partition_cols(label, required=false) %}
    {{- _columns_clause(label, config.get('partition_by', validator=validation.any[list, basestring])) -}}
{%- endmacro %}


{% macro spark_streaming__clustered_cols(label, required=false) %}
    {%- set buckets = config.get('buckets', validator=validation.any[int]) -%}
    {%- if buckets is not none -%}
        {%- set clause = _columns_clause(label, config.get('clustered_by', validator=validation.any[list, basestring])) -%}
        {{- clause ~ (' into ' ~ buckets ~ ' buckets' if clause | trim else '') -}}
    {%- endif -%}
{%- endmacro %}


{% macro _columns_clause(label, columns) -%}
    {%- if columns is not none %}
    {{ label }} (
        {%- for column in ([columns] if columns is string else columns) -%}
        {{ adapter.quote_configured(column) }}{{ ', ' if not loop.last }}
        {%- endfor -%}
    )
    {%- endif %}
{%- endmacro %}
