"""sidkit case: items and queries followed through two tokenizers, a file per command."""
