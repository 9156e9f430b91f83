"""Semantic IDs: tables, strings, prefixes, quality, and spreading."""
