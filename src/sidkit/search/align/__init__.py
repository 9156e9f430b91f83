"""Queries and items in one space.

pairs.py        which queries and items a log relates
alignment.py    the projection, and its folder
training.py     the losses it is trained by
job.py          all of it for a shop: from its log and embeddings to aligned vectors
"""
