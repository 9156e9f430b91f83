"""How good are the semantic IDs: metrics, carryover, and what a person sees of them."""
