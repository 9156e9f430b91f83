"""sidkit search: shops and their logs."""
