"""A plan of any form as one tree of operators, in the field's terms and the author's words, to be shown."""
