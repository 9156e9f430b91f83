"""sidkit data: public datasets from their raw files."""
