"""How well lists of items are: metrics, BM25 and other baselines on the same pairs, the comparison."""
