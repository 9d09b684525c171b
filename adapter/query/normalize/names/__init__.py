"""Rules about names: stars, common table expressions, whose column it is, what the results are called."""
