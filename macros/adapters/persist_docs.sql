{# Stores descriptions as comments of a relation and its columns. #}

{% macro spark_streaming__persist_docs(relation, model, for_relation, for_columns) -%}
    {#-
        Writes only comments that differ: each change makes a new version of the table's metadata, and most runs change
        none. A view gets its comments when it is created.
    -#}
    {% set relation_docs = for_relation and config.persist_relation_docs() and model.description %}
    {% set column_docs = for_columns and config.persist_column_docs() and model.columns %}
    {% if relation.is_view or not (relation_docs or column_docs) %}
        {{ return('') }}
    {% endif %}
    {% set comments = adapter.described_comments(relation) %}
    {% if relation_docs and comments.get('') != model.description %}
        {% do run_query(alter_relation_comment(relation, model.description)) %}
    {% endif %}
    {% if column_docs %}
        {% set existing = comments.keys() | reject('equalto', '') | list %}
        {% set documented = validate_doc_columns(relation, model.columns, existing) %}
        {% set lowered = {} %}
        {% for name, comment in comments.items() %}{% do lowered.update({name | lower: comment}) %}{% endfor %}
        {% set changed = {} %}
        {% for name, column in documented.items() %}
            {% if lowered.get(name | lower, '') != column['description'] %}
                {% do changed.update({name: column}) %}
            {% endif %}
        {% endfor %}
        {% do alter_column_comment(relation, changed) %}
    {% endif %}
{% endmacro %}


{% macro spark_streaming__alter_relation_comment(relation, relation_comment) -%}
    comment on table {{ relation.render() }} is {{ adapter.text_literal(relation_comment) }}
{%- endmacro %}


{% macro spark_streaming__alter_column_comment(relation, column_dict) %}
    {% for name, column in column_dict.items() %}
        {% call statement('alter_column_comment') %}
            alter table {{ relation.render() }} alter column {{ adapter.quote(name) }}
                comment {{ adapter.text_literal(column['description']) }}
        {% endcall %}
    {% endfor %}
{% endmacro %}


{% macro spark_streaming__comment_clause() %}
    {%- if config.persist_relation_docs() and model.description %}
        comment {{ adapter.text_literal(model.description) }}
    {%- endif %}
{%- endmacro %}


{% macro get_persist_docs_column_list(model_columns, query_columns) %}
    {#- dbt-spark's macro doesn't escape descriptions, and only finds columns in the same case. -#}
    {%- set described = {} -%}
    {%- for name, column in model_columns.items() -%}
        {%- do described.update({name | lower: column['description']}) -%}
    {%- endfor -%}
    {%- for name in query_columns -%}
        {%- set description = described.get(name | lower) or described.get(adapter.quote(name) | lower) -%}
        {{ adapter.quote(name) }}
        {%- if description %} comment {{ adapter.text_literal(description) }}{% endif %}
        {{- ', ' if not loop.last }}
    {%- endfor -%}
{% endmacro %}
