{{ config(materialized='incremental', incremental_strategy='window_overwrite') }}

select
    window_start,
    window_end,
    shop,
    count(*) as orders,
    count(distinct customer) as customers,
    sum(cents) as cents
from {{ tumble(ref('orders'), 'ordered_at', '10 minutes') }}
group by window_start, window_end, shop
