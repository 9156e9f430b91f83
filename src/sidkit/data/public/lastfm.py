"""Last.fm of HetRec 2011: the artists that users tagged, in the order in which they first did."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...progress import Progress, Silent
from .core import Collected, core_of, require_core
from .lines import BadLines, read_lines
from .write import ItemText, write_dataset

__all__ = ["FILES", "read_lastfm"]


@dataclass(frozen=True)
class _File:
    name: str
    columns: tuple[str, ...]
    encoding: str


TAGGED = _File("user_taggedartists-timestamps.dat", ("userID", "artistID", "tagID", "timestamp"), "utf-8-sig")
ARTISTS = _File("artists.dat", ("id", "name"), "utf-8-sig")
TAGS = _File("tags.dat", ("tagID", "tagValue"), "latin-1")
WHOLE = re.compile(r"\d{1,18}")
FILES = (TAGGED.name, ARTISTS.name, TAGS.name)


def read_lastfm(
    folder: Path,
    output: Path,
    least: int = 5,
    tags: int = 10,
    bad: BadLines | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write items.parquet and sequences.parquet to a folder; the counts.

    An event is the first time that a user tagged an artist. The text of an artist is its name and its most frequent
    tags; of equally frequent ones those with the smaller number come first.
    """
    require_core(least)
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise InputError(f"no {missing[0]} in {folder}; it takes the files of hetrec2011-lastfm-2k: {', '.join(FILES)}")
    bad, progress = bad or BadLines(), progress or Silent()
    first, counts, lines = _first_times(folder, bad, progress)
    if not first:
        raise InputError(f"{folder / TAGGED.name} holds no rows")
    events = Collected()
    for (user, artist), time in first.items():
        events.add(user, artist, time)
    kept = core_of(events, least)
    artist_names = _names(folder, ARTISTS, bad, progress)
    words = _names(folder, TAGS, bad, progress)
    texts = {item: _text(artist_names.get(item), counts[item], words, tags) for item in kept.item_ids}
    facts = {
        "source": "lastfm",
        "core": least,
        "read": {
            "tag_assignments": lines,
            "users": len(events.users),
            "items": len(events.items),
            "interactions": len(events),
        },
        "items_without_metadata": sum(item not in artist_names for item in kept.item_ids),
        "bad_lines": len(bad.found),
    }
    return write_dataset(output, kept, texts, facts)


Firsts = dict[tuple[str, str], int]


def _first_times(folder: Path, bad: BadLines, progress: Progress) -> tuple[Firsts, dict[str, Counter[str]], int]:
    """When each user first tagged each artist, how often each artist got each tag, and the number of assignments."""
    first: Firsts = {}
    counts: dict[str, Counter[str]] = {}
    lines = 0
    for number, (user, artist, tag, time) in _rows(folder, TAGGED, bad, progress):
        when = int(time) if WHOLE.fullmatch(time) else None
        if when is None:
            bad.add(folder / TAGGED.name, number, f"has {time[:40]!r} for a timestamp, which must be a whole number")
            continue
        lines += 1
        pair = user, artist
        first[pair] = min(when, first.get(pair, when))
        counts.setdefault(artist, Counter())[tag] += 1
    return first, counts, lines


def _names(folder: Path, file: _File, bad: BadLines, progress: Progress) -> dict[str, str]:
    return {key: name for _, (key, name) in _rows(folder, file, bad, progress)}


def _rows(folder: Path, file: _File, bad: BadLines, progress: Progress) -> Iterator[tuple[int, list[str]]]:
    """The cells of the file's columns, line by line; its first line names them, and further columns are ignored."""
    path = folder / file.name
    for number, line in read_lines(path, bad, progress, file.name):
        cells = line.decode(file.encoding, errors="replace").rstrip("\r\n").split("\t")
        if number == 1:
            if tuple(cells[: len(file.columns)]) != file.columns:
                raise InputError(
                    f"{path} starts with columns {', '.join(cells)[:80]}; needed: {', '.join(file.columns)}"
                )
        elif len(cells) < len(file.columns):
            bad.add(path, number, f"has {len(cells)} columns instead of {len(file.columns)}")
        else:
            yield number, cells[: len(file.columns)]


def _text(name: str | None, counts: Counter[str], words: dict[str, str], most: int) -> ItemText:
    """Morcheeba; trip-hop, chillout"""
    ranked = sorted(counts, key=lambda tag: (-counts[tag], int(tag) if tag.isdigit() else 0, tag))
    told = [words[tag] for tag in ranked if tag in words][:most]
    return ItemText("; ".join(part for part in (name, ", ".join(told)) if part) or "None", name)
