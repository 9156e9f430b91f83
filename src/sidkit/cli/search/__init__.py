"""sidkit search: generative search over semantic IDs."""
