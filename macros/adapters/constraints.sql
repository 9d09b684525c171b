{#
    Contracts. Iceberg keeps no constraints, and a table that is created by a query has no column that is
    NOT NULL. So `not_null` and `check` are looked after in the query itself: a row that breaks one ends it,
    and the table stays as it was.
#}

{% macro spark_streaming__get_select_subquery(sql) %}
    {%- set conditions = _constraint_conditions(model) -%}
    select {{ adapter.dispatch('get_column_names', 'dbt')() }}
    from (
        {{ sql }}
    ) as model_subq
    {%- for condition in conditions %}
    {{ 'where' if loop.first else 'and' }} {{ condition }}
    {%- endfor %}
{%- endmacro %}


{% macro _constraint_conditions(model) %}
    {%- set conditions = [] -%}
    {%- for name, column in model['columns'].items() -%}
        {%- set quoted = adapter.quote(name) if column.get('quote') else name -%}
        {%- for constraint in column.get('constraints', []) -%}
            {%- if constraint.type == 'not_null' -%}
                {%- do conditions.append(_break_if(quoted ~ ' is null', 'Column ' ~ name ~ ' must not be null')) -%}
            {%- elif constraint.type == 'check' -%}
                {%- do conditions.append(_break_if('not (' ~ constraint.expression ~ ')', _check_message(constraint))) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- for constraint in model.get('constraints', []) -%}
        {%- if constraint.type == 'check' -%}
            {%- do conditions.append(_break_if('not (' ~ constraint.expression ~ ')', _check_message(constraint))) -%}
        {%- elif constraint.type == 'not_null' -%}
            {%- for name in constraint.columns -%}
                {%- do conditions.append(_break_if(name ~ ' is null', 'Column ' ~ name ~ ' must not be null')) -%}
            {%- endfor -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(conditions) }}
{% endmacro %}


{% macro _check_message(constraint) -%}
    {{ return('Constraint ' ~ (constraint.name ~ ' ' if constraint.name else '') ~ 'is broken: ' ~ constraint.expression) }}
{%- endmacro %}


{% macro _break_if(condition, message) -%}
    {{ return("if(" ~ condition ~ ", raise_error('" ~ _escape_literal(message ~ ', says the contract of ' ~ model.name ~ '.') ~ "'), true)") }}
{%- endmacro %}
