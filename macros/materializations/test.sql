{#- Tests: dbt's own, but the table of the failures of before is dropped with its files. -#}

{% materialization test, adapter='spark_streaming' %}
  {%- if should_store_failures() -%}
    {%- set before = adapter.get_relation(database=database, schema=schema, identifier=model['alias']) -%}
    {%- if before is not none -%}
      {%- do adapter.drop_replaced(before) -%}
    {%- endif -%}
  {%- endif -%}
  {{ return(materialization_test_default()) }}
{% endmaterialization %}
