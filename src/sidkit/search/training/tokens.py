"""Texts and SIDs as tokens of one vocabulary.

    0 <s>   1 <pad>   2 </s>   3 <unk>   4 <mask>     as BART numbers them
    5 ..                                              byte-level BPE, trained on the texts, or a given tokenizer's words
    first ..                                          SIDs, level by level: <a_0> <a_1> ... <b_0> ...
    .. size                                           unused tokens, so that the size is a multiple of 64

Texts never contain SID tokens: a title with "<a_12>" in it is split like any other text. Blanks around a text are not
part of it; its first word is split as a word after a blank, so texts may follow each other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError, StoreError, need
from ...sids.template import TEMPLATES
from ..bart.packing import Ragged

__all__ = ["Tokens", "train_bpe"]

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
MULTIPLE = 64
AT_ONCE = 1 << 16  # texts split at once
WORDS = "tokenizer.json"
FACTS = "tokens.json"


def train_bpe(texts: Iterable[str], size: int = 16_000) -> Any:
    """A byte-level BPE tokenizer of at most `size` tokens, trained on the texts."""
    need("tokenizers", "search", "training a search model")
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    words = Tokenizer(models.BPE(unk_token="<unk>"))
    words.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    words.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, min_frequency=2, special_tokens=list(SPECIAL), initial_alphabet=alphabet, show_progress=False
    )
    words.train_from_iterator(texts, trainer)
    return words


@dataclass(frozen=True, eq=False)
class Tokens:
    """A text tokenizer (of the `tokenizers` library) and the SIDs of some sizes behind its words."""

    words: Any
    sizes: tuple[int, ...]

    @property
    def bos(self) -> int:
        return self._special("<s>")

    @property
    def pad(self) -> int:
        return self._special("<pad>")

    @property
    def eos(self) -> int:
        return self._special("</s>")

    @cached_property
    def first(self) -> int:
        """The token of code 0 of level 1: the one after the last token of texts."""
        return 1 + int(max(self.words.get_vocab(with_added_tokens=True).values()))

    @property
    def size(self) -> int:
        return -(-(self.first + sum(self.sizes)) // MULTIPLE) * MULTIPLE

    def texts(self, texts: Sequence[str | None], longest: int) -> Ragged:
        """The tokens of each text, at most `longest` of each, without start and end."""
        return Ragged.of(self._split(texts, longest))

    def sids(self, codes: NDArray[Any]) -> NDArray[np.int32]:
        """codes: (n, levels) -> tokens of the same shape."""
        codes = np.asarray(codes, np.int64)
        if codes.ndim != 2 or codes.shape[1] != len(self.sizes):
            raise InputError(f"SIDs of {len(self.sizes)} levels are needed, not codes of shape {codes.shape}")
        outside = (codes < 0) | (codes >= np.array(self.sizes))
        if outside.any():
            row, level = np.argwhere(outside)[0]
            raise InputError(
                f"code {codes[row, level]} of row {row} is not one of the {self.sizes[level]} codes "
                f"of level {level + 1}"
            )
        before = np.cumsum([0, *self.sizes[:-1]])
        tokens: NDArray[np.int32] = (codes + before + self.first).astype(np.int32)
        return tokens

    def names(self) -> list[str]:
        """The SID tokens as text, in the order of their ids."""
        return list(self._names)

    def text(self, tokens: Sequence[int]) -> str:
        """Tokens as text without special tokens, SIDs as <a_12><b_3>."""
        names = self._names
        parts, run = [], list[int]()
        for token in [*map(int, tokens), -1]:
            if 0 <= token < self.first:
                run.append(token)
                continue
            parts.append(self.words.decode(run))
            run = []
            parts += [names[token - self.first]] if 0 <= token - self.first < len(names) else []
        return "".join(parts).strip()

    def save(self, folder: Path) -> None:
        """Write tokenizer.json and tokens.json into a folder."""
        self.words.save(str(folder / WORDS))
        (folder / FACTS).write_text(json.dumps({"sizes": self.sizes}), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Tokens:
        need("tokenizers", "search", "a search model")
        from tokenizers import Tokenizer

        try:
            sizes = tuple(int(size) for size in json.loads((folder / FACTS).read_text(encoding="utf-8"))["sizes"])
            return cls(Tokenizer.from_file(str(folder / WORDS)), sizes)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{folder} contains no tokens of a search model: {error}") from error
        except Exception as error:
            raise StoreError(f"{folder / WORDS} cannot be read: {error}") from error

    @classmethod
    def of_folder(cls, folder: str | Path, sizes: Sequence[int]) -> Tokens:
        """The tokenizer of a local model folder, with SIDs behind its words.

        Its own padding and truncation are turned off, and a byte-level one starts every text with a blank: texts are
        parts of an input here, not inputs.
        """
        file = Path(folder) / WORDS
        if not file.is_file():
            raise InputError(f"{folder} contains no {WORDS}; a model that starts from a folder needs its tokenizer")
        need("tokenizers", "search", "a search model")
        from tokenizers import Tokenizer, pre_tokenizers

        words = Tokenizer.from_file(str(file))
        words.no_padding()
        words.no_truncation()
        if isinstance(words.pre_tokenizer, pre_tokenizers.ByteLevel):
            words.pre_tokenizer.add_prefix_space = True
        return cls(words, tuple(sizes))

    @cached_property
    def _names(self) -> list[str]:
        letters = TEMPLATES["letters"]
        return [word for level, size in enumerate(self.sizes) for word in letters.words(level, size)]

    def _special(self, name: str) -> int:
        token = self.words.token_to_id(name)
        if token is None:
            raise InputError(f"the tokenizer has no token {name}; a BART's has {', '.join(SPECIAL)}")
        return int(token)

    def _split(self, texts: Sequence[str | None], longest: int) -> Iterator[list[int]]:
        self.words.encode_special_tokens = True  # "</s>" in a title is text
        for first in range(0, len(texts), AT_ONCE):
            part = [(text or "").strip() for text in texts[first : first + AT_ONCE]]
            for encoding in self.words.encode_batch_fast(part, add_special_tokens=False):
                yield encoding.ids[:longest]
