"""What users bring."""
