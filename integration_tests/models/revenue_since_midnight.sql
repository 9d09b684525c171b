{{ config(materialized='cumulate') }}

select
    window_start,
    window_end,
    shop,
    sum(cents) as cents,
    count(distinct customer) as customers
from {{ cumulate(source('raw', 'orders'), 'ordered_at', '1 hour', '1 day') }}
where cents > 0
group by window_start, window_end, shop
