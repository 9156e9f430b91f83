"""Where a page comes from: when, by which command and from which files, with what identifies their content."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from typing import NamedTuple

import numpy as np

from .. import __version__
from ..sids.table import SidTable

BATCH = 1 << 20  # rows

__all__ = ["Made", "made_list", "of_table", "sids_digest"]


class Made(NamedTuple):
    """The command, as a shell would run it, and the (name, text) of what was read; both may be empty."""

    command: str = ""
    sources: Sequence[tuple[str, str]] = ()


def made_list(made: Made) -> str:
    """The head of a page: a line each for the time, the command and the sources."""
    lines = [("made", f"{_now()} by sidkit {__version__}")]
    lines += [("command", made.command)] if made.command else []
    rows = "".join(f"<div><dt>{escape(k)}</dt><dd>{_marked(k, v)}</dd></div>" for k, v in (*lines, *made.sources))
    return f'<dl class="made">{rows}</dl>'


def _marked(name: str, text: str) -> str:
    return f"<code>{escape(text)}</code>" if name == "command" else escape(text)


def _now() -> str:
    """The time in UTC; that of SOURCE_DATE_EPOCH where it is set, so that a page can be made again to the byte."""
    fixed = os.environ.get("SOURCE_DATE_EPOCH", "")
    when = datetime.fromtimestamp(int(fixed), UTC) if fixed.isdecimal() else datetime.now(UTC)
    return f"{when:%Y-%m-%d %H:%M} UTC"


def of_table(table: SidTable, name: str) -> list[tuple[str, str]]:
    """The sources of a table of SIDs: its file, its tokenizer and its embeddings, as far as they are known."""
    origin, sources = table.origin, [("SIDs", f"{name}, fingerprint {sids_digest(table)}")]
    if origin.tokenizer_digest:
        sources.append(("tokenizer", f"{origin.tokenizer}, fingerprint {origin.tokenizer_digest}"))
    if origin.embeddings_digest:
        sources.append(("embeddings", f"{origin.embeddings}, fingerprint {origin.embeddings_digest}"))
    return sources


def sids_digest(table: SidTable) -> str:
    """16 digits that identify the items and codes of a table, in their order."""
    digest, between = hashlib.sha256(f"[{json.dumps(table.sizes)}, [".encode()), ""
    for ids in table.id_batches():  # as JSON would write all of them
        if len(ids):
            digest.update((between + json.dumps(ids.to_pylist())[1:-1]).encode())
            between = ", "
    digest.update(b"]]")
    for start in range(0, len(table), BATCH):
        digest.update(np.ascontiguousarray(table.codes[start : start + BATCH], "<i4").tobytes())
    return digest.hexdigest()[:16]
