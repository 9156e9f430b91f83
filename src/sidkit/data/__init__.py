"""What users bring: embeddings, ids, items and sequences."""
