"""Files of embeddings, format by format."""
