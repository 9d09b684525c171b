{#- Freshness of sources. dbt reads times as UTC, so each time is returned as a UTC clock shows it. -#}

{% macro spark_streaming__collect_freshness(source, loaded_at_field, filter) %}
  {% call statement('collect_freshness', fetch_result=True, auto_begin=False) -%}
    select
      {{ _on_utc_clock('max(' ~ loaded_at_field ~ ')') }} as max_loaded_at,
      {{ _on_utc_clock(current_timestamp()) }} as snapshotted_at
    from {{ source }}
    {% if filter %}
    where {{ filter }}
    {% endif %}
  {% endcall %}
  {{ return(load_result('collect_freshness')) }}
{% endmacro %}


{% macro spark_streaming__collect_freshness_custom_sql(source, loaded_at_query) %}
  {% call statement('collect_freshness_custom_sql', fetch_result=True, auto_begin=False) -%}
    with source_query as (
      {{ loaded_at_query }}
    )
    select
      {{ _on_utc_clock('(select * from source_query)') }} as max_loaded_at,
      {{ _on_utc_clock(current_timestamp()) }} as snapshotted_at
  {% endcall %}
  {{ return(load_result('collect_freshness_custom_sql')) }}
{% endmacro %}


{% macro spark_streaming__get_relation_last_modified(information_schema, relations) -%}
  {#- From Iceberg's history, without a scan of the table. -#}
  {%- for relation in relations if not relation.is_iceberg -%}
      {%- do exceptions.raise_compiler_error(
          relation.render() ~ " isn't an Iceberg table, whose last commit counts without a loaded_at_field. Write a "
          ~ "loaded_at_field for its freshness."
      ) -%}
  {%- endfor -%}
  {%- call statement('last_modified', fetch_result=True) -%}
      {%- for relation in relations %}
      select
          {{ adapter.text_literal(relation.schema) }} as schema,
          {{ adapter.text_literal(relation.identifier) }} as identifier,
          {{ _on_utc_clock('max(made_current_at)') }} as last_modified,
          {{ _on_utc_clock(current_timestamp()) }} as snapshotted_at
      from {{ relation.render() }}.history
      {%- if not loop.last %} union all {% endif %}
      {%- endfor %}
  {%- endcall -%}
  {{ return(load_result('last_modified')) }}
{%- endmacro %}


{% macro _on_utc_clock(time) -%}
  {#- A TIMESTAMP_NTZ or a DATE counts as UTC, as in dbt's documentation. -#}
  if(
    typeof({{ time }}) in ('timestamp_ntz', 'date'),
    cast({{ time }} as timestamp_ntz),
    timestamp_ntz'1970-01-01 00:00:00' + make_dt_interval(0, 0, 0, unix_micros(cast({{ time }} as timestamp)) / 1000000bd)
  )
{%- endmacro %}
