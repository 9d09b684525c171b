{#- Tests: dbt's own materialization. The table with earlier failures is dropped first, with its files. -#}

{% materialization test, adapter='spark_streaming' %}
  {%- if should_store_failures() -%}
    {%- set earlier = adapter.get_relation(database=database, schema=schema, identifier=model['alias']) -%}
    {%- if earlier is not none -%}
      {%- do adapter.drop_replaced(earlier) -%}
    {%- endif -%}
  {%- endif -%}
  {{ return(materialization_test_default()) }}
{% endmaterialization %}
