"""The stages of a tokenizer."""
