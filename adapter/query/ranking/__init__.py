"""Rankings: where they end, how ties are broken, which rows can still be in one."""
