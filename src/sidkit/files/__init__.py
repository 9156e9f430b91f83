"""Writing and naming files."""
