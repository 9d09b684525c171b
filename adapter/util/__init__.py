"""Small things that any part uses: quoting, redaction, sizes, errors as sentences."""
