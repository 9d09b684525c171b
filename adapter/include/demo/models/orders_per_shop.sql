{# Fixed windows: a row per shop and ten minutes, added once these are over. Rows may be five minutes out of order. #}
{{ config(materialized='window_aggregate', watermark='5 minutes') }}

select
    window_start,
    window_end,
    shop,
    count(*) as orders,
    sum(cents) as cents
from {{ tumble(source('web', 'orders'), 'ordered_at', '10 minutes') }}
group by window_start, window_end, shop
