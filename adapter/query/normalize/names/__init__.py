"""Rules for names: CTEs, stars, qualifiers, output names."""
