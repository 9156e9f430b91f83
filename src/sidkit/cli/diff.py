"""sidkit diff: what changed between two sets of semantic IDs."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import SpecError, count_of
from .options import Force, Json, Location, location
from .outputs import PAGES, require_file, write_page


def diff(
    old: Annotated[
        Location, typer.Argument(help="SIDs as they were", show_default=False, parser=location, metavar="OLD")
    ],
    new: Annotated[
        Location, typer.Argument(help="SIDs as they are now", show_default=False, parser=location, metavar="NEW")
    ],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write an HTML page")] = None,
    tokenizer: Annotated[
        Path | None, typer.Option("--tokenizer", help="The tokenizer of OLD, to measure how far items moved")
    ] = None,
    new_tokenizer: Annotated[Path | None, typer.Option("--new-tokenizer", help="That of NEW, if it is another")] = None,
    limit: Annotated[int, typer.Option("--limit", help="Maximum number of items and prefixes to list")] = 20,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """sidkit diff sids.parquet resolved.parquet -o diff.html

    List what changed between two files of semantic IDs: which items moved and how many of their first tokens they kept,
    and which prefixes were split or merged. Items are compared by their ids. With --tokenizer, SIDs are decoded, and
    the distance between what the old and the new SID of an item stand for is printed as well.
    """
    from ..measure.displacement import displacement
    from ..sids.changed import difference
    from ..sids.table import SidTable
    from ..tokenizer.tokenizer import load

    if limit < 1:
        raise SpecError(f"--limit must be at least 1, not {limit}")
    if output is not None:
        require_file(output, str(old), str(new), endings=PAGES, force=force)
    if new_tokenizer is not None and tokenizer is None:
        raise SpecError("--new-tokenizer goes with --tokenizer, which names the old one")
    tables = SidTable.from_parquet(old), SidTable.from_parquet(new)
    facts = difference(*tables, limit)
    if tokenizer is not None:
        first = load(tokenizer)
        facts["distance"] = displacement(*tables, first, load(new_tokenizer) if new_tokenizer else first)
    if output is not None:
        from ..report.difference_page import difference_page

        write_page(output, difference_page(facts, old.name, new.name))
    if as_json:
        print(json.dumps({"old": str(old), "new": str(new), **facts}))
        return
    _print(facts)
    if output is not None:
        print(f"wrote {output}")


def _print(facts: Mapping[str, Any]) -> None:
    from .printing import print_rows

    both = count_of(facts["shared"], "item is", "items are")
    counts = f"{both} in both, {facts['added']:,} were added, {facts['removed']:,} removed"
    kept = [f"{count:,} kept {tokens}" for tokens, count in enumerate(facts["tokens_kept"][:-1]) if count]
    moved = f"{facts['moved']:,} have another SID" + (f" ({', '.join(kept)} first tokens)" if kept else "")
    head = ["level", "other token", "other prefix", "prefixes", "now", "split", "merged", "same items"]
    rows = [
        [
            str(level + 1),
            f"{facts['tokens'][level]:.1%}",
            f"{facts['prefixes'][level]:.1%}",
            *(f"{counts[name]:,}" for name in ("old", "new", "split", "merged", "same_items")),
        ]
        for level, counts in enumerate(facts["levels"])
    ]
    print_rows([counts, moved], head, rows)
    if facts.get("distance", {}).get("items"):
        far = facts["distance"]
        words = f"mean {far['mean']:.3f}, median {far['median']:.3f}, nine in ten up to {far['quantile_90']:.3f}"
        print(f"distance between old and new SID of moved items, 1 - cosine: {words}")
    for word, found in (("split", facts["splits"]), ("merged", facts["merges"])):
        for one in found[:5]:
            parts = ", ".join(f"{part['prefix']} ({part['items']:,})" for part in one["parts"][:3])
            print_line(
                f"{word} {one['prefix']} ({count_of(one['items'], 'item')}): {parts}{' …' if one['in'] > 3 else ''}"
            )


def print_line(text: str) -> None:
    from .terminal import plain

    print(plain(text))
