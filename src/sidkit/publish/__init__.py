"""The life of semantic IDs: a registry of those that are published, and how IDs change when a tokenizer does."""
