"""Words of a million texts: the texts that have a word, within milliseconds, and the words that distinguish a group.

Arrow splits the texts, not `text.words`: it is several times faster and a little coarser (usb-c is two words here).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import sparse

from ..embed.word_counts import WordCounts
from ..embed.words import STOP

__all__ = ["Words", "split_words"]

Integers = NDArray[np.int64]
BATCH = 1 << 17  # texts split at once
APOSTROPHES = r"['’](s\b)?"  # women's is women, don't is dont
IDEOGRAPHS = r"([\p{Han}\p{Hiragana}\p{Katakana}])"
NOT_A_WORD = r"[^\p{L}\p{M}\p{N}]+"


def split_words(texts: Any) -> Any:
    """The words of every text, lower-cased, as a pyarrow list array; an ideograph is a word. Words may be empty."""
    plain = pc.replace_substring_regex(pc.utf8_lower(pc.utf8_normalize(texts, "NFKC")), APOSTROPHES, "")
    return pc.split_pattern_regex(pc.replace_substring_regex(plain, IDEOGRAPHS, r" \1 "), NOT_A_WORD)


class Words:
    """The words of all texts.

    vocabulary   sorted, so that words with a common beginning are adjacent
    postings     texts that have word i: postings[ends[i]:ends[i + 1]], ascending
    counts       for questions about groups (`word_counts.WordCounts`)
    """

    def __init__(self, texts: Any) -> None:
        flat, owners = [], []
        for start in range(0, len(texts), BATCH):
            words = split_words(texts[start : start + BATCH])
            owners.append(np.repeat(np.arange(start, start + len(words)), pc.list_value_length(words).to_numpy()))
            flat.append(words.flatten())
        encoded = pa.chunked_array(flat, pa.large_string()).dictionary_encode().unify_dictionaries()
        different = encoded.chunk(0).dictionary if encoded.num_chunks else pa.array([], pa.large_string())
        order = pc.sort_indices(different).to_numpy()
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        tokens = np.concatenate([rank[chunk.indices.to_numpy()] for chunk in encoded.chunks] or [rank])
        rows = np.concatenate(owners or [rank])
        self.texts, self.vocabulary = texts, different.take(pa.array(order))
        self._lengths = np.minimum(pc.utf8_length(texts).to_numpy(), 2**16 - 1).astype(np.uint16)
        shape = (len(texts), len(order))
        by_word = sparse.csc_matrix((np.ones(len(rows), np.int8), (rows, tokens)), shape=shape)
        self.postings, self.ends = by_word.indices, by_word.indptr
        telling = _telling(self.vocabulary)[tokens]
        self.counts = WordCounts.of_tokens(tokens[telling], rows[telling], self.vocabulary.to_pylist(), len(texts))

    def find(self, query: str) -> Integers:
        """The texts that have all words of the query, the last of which may be incomplete; shortest texts first."""
        wanted = [word for word in split_words(pa.array([query], pa.large_string()))[0].as_py() if word]
        if not wanted:
            return np.zeros(0, np.int64)
        having = np.ones(len(self.texts), bool)
        for word in wanted[:-1]:
            having &= self._having(word)
        having &= self._having(wanted[-1], complete=False)
        rows = np.flatnonzero(having)
        return rows[np.argsort(self._lengths[rows], kind="stable")]

    def _having(self, word: str, complete: bool = True) -> NDArray[np.bool_]:
        """Per text, whether it has this word; where it is not complete, a word that starts so."""
        low = self._index(word)
        high = self._index(word + "\0" if complete else word + chr(0x10FFFF))
        mask = np.zeros(len(self.texts), bool)
        mask[self.postings[self.ends[low] : self.ends[high]]] = True
        return mask

    def _index(self, word: str) -> int:
        """The number of words before this one, in the order of their bytes."""
        low, high, key = 0, len(self.vocabulary), word.encode()
        while low < high:
            middle = (low + high) // 2
            if self.vocabulary[middle].as_py().encode() < key:
                low = middle + 1
            else:
                high = middle
        return low


def _telling(words: Any) -> NDArray[np.bool_]:
    """Whether a word informs a reader: no stop word, no bare number, no single letter except an ideograph."""
    long = pc.and_(pc.match_substring_regex(words, r"\p{L}"), pc.greater(pc.utf8_length(words), 1))
    stop = pc.is_in(words, value_set=pa.array(sorted(STOP), pa.large_string()))
    informs = pc.and_not(pc.or_(long, pc.match_substring_regex(words, IDEOGRAPHS)), stop)
    telling: NDArray[np.bool_] = informs.to_numpy(False)
    return telling
