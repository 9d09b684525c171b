"""Helpers for all packages: quoting, redaction, settings, sizes, texts of messages."""
