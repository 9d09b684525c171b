{# Windows that grow: every ten minutes the revenue and the customers since midnight (UTC). #}
{{ config(materialized='cumulate', watermark='5 minutes') }}

select
    window_start,
    window_end,
    count(*) as orders,
    count(distinct customer) as customers,
    sum(cents) as cents
from {{ cumulate(source('web', 'orders'), 'ordered_at', '10 minutes', '1 day') }}
group by window_start, window_end
