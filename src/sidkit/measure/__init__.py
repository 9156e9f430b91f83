"""Measures that semantic IDs are judged by."""
