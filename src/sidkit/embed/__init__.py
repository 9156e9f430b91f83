"""Texts to vectors, by an encoder that can be saved, so that queries are embedded as the items were.

wordllama.py    the default: averaged token vectors, whose weights come with a small package
tfidf.py        words and word pairs on singular directions, fitted on the texts themselves; needs nothing
sentence.py     any sentence-transformers model, by name or folder
pair.py         embeddings and their encoder, written as one
store.py        an encoder from the folder it was saved as
job.py          `sidkit embed`: a file of texts to a file of vectors, in parts that survive a kill
text.py         tf-idf and its singular directions; words.py and word_counts.py: the words of texts
co_occurrence.py   vectors of which items occur together, appended to embeddings

encoder = sidkit.embed.choose("wordllama")
encoder.embed(["red shoes", "a mug"])            # (2, d) float32, rows of length one
encoder.save("embeddings.encoder")
sidkit.embed.load("embeddings.encoder").embed(["red shoes"], query=True)
"""

from __future__ import annotations

from .choose import choose
from .encoder import Encoder
from .pair import beside
from .store import load

__all__ = ["Encoder", "beside", "choose", "load"]
