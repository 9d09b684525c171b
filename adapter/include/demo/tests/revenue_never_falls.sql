-- Within a day each row of the curve has at least the orders of the row before it.
select *
from (
    select window_end, orders, lag(orders) over (partition by window_start order by window_end) as before
    from {{ ref('revenue_today') }}
)
where orders < before
