"""Rows: the only way an algorithm reaches its data."""
