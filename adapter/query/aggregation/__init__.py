"""GROUP BY as partial aggregates that are kept, merged and finished."""
