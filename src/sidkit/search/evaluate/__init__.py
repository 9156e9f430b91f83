"""How good lists of items are, beside what people use instead, on the same pairs.

metrics.py      HitRate and MRR, and how sure a difference is
baselines.py    BM25, nearest neighbours and counting
bm25.py         BM25 over the texts of items
top.py          the best k of many scores
evaluation.py   a model and the baselines on the test pairs of a shop
"""
