{% test one_row_per(model, columns) %}
{#- Keys (`columns`) that have more than one row. -#}
select {{ columns | join(', ') }}, count(*) as found
from {{ model }}
group by {{ columns | join(', ') }}
having count(*) > 1
{% endtest %}
