"""What a table of semantic IDs was made from, as a note in the metadata of its file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from ..errors import InputError

__all__ = ["ORIGIN", "Origin"]

ORIGIN = b"sidkit.origin"  # the key of the note


@dataclass(frozen=True)
class Origin:
    """Names and digests of what SIDs were made from; '' where they are not known."""

    id_column: str = ""  # the name that the column of ids had
    tokenizer: str = ""  # its folder, as it was named
    tokenizer_digest: str = ""
    embeddings: str = ""  # their file, as it was named
    embeddings_digest: str = ""

    def note(self) -> dict[bytes, bytes]:
        """As an entry of the metadata, without what is not known."""
        known = {name: value for name, value in asdict(self).items() if value}
        return {ORIGIN: json.dumps(known).encode()} if known else {}

    @classmethod
    def read(cls, note: bytes | None, path: Any) -> Origin:
        """The inverse of `note`. Entries that a later version may add are left out."""
        if note is None:
            return cls()
        try:
            known = json.loads(note)
            values = {field.name: known.get(field.name, "") for field in fields(cls)}
            if not all(isinstance(value, str) for value in values.values()):
                raise TypeError("its entries are texts")
        except (ValueError, TypeError, AttributeError, RecursionError):
            raise InputError(f"{path}: its note on what it was made from cannot be read: {note[:80]!r}") from None
        return cls(**values)

    @classmethod
    def common(cls, origins: Sequence[Origin]) -> Origin:
        """What several files have in common."""
        return cls(
            **{
                field.name: values.pop()
                for field in fields(cls)
                if len(values := {getattr(origin, field.name) for origin in origins}) == 1
            }
        )
