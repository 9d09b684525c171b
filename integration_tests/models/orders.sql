{{ config(materialized='streaming_table', event_time='ordered_at') }}

select order_id, ordered_at, shop, customer, cents
from {{ stream(source('raw', 'orders')) }}
where cents > 0
