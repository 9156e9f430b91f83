"""sidkit search keywords: a dictionary of keywords from a catalogue."""

import json
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from ..options import Json
from ..outputs import require_file, require_parquet
from .shared import ShopFolder, shop_table


def keywords(
    shop: ShopFolder,
    output: Annotated[Path, typer.Option("--output", "-o", help="Parquet file to write", show_default=False)],
    least: Annotated[int, typer.Option("--least", help="Minimum number of items that have a keyword")] = 5,
    most: Annotated[
        int, typer.Option("--most", help="Maximum number of keywords; the most frequent are taken")
    ] = 20_000,
    as_json: Json = False,
) -> None:
    """sidkit search keywords shop -o keywords.parquet

    Collect keywords of eighteen attribute types (Brand, Color, Material, ...) from the fields and titles of a
    catalogue, as a table (keyword, type, count). Delete rows of it to remove keywords. Once they are embedded,
    `sidkit search align --keywords` mixes them into the vectors of queries and items.
    """
    import pyarrow.parquet as pq

    from ...files.address import replacing
    from ...search.dictionary import FEEDS, dictionary

    require_parquet(output)
    require_file(output, shop / "items.parquet")
    fields = tuple(dict.fromkeys(feed.field for feed in FEEDS))
    table = dictionary(shop_table(shop, "items", ("item_id",), fields), least, most)
    with replacing(output) as temporary:
        pq.write_table(table, temporary)
    counts = Counter(table.column("type").to_pylist())
    if as_json:
        print(json.dumps({"output": str(output), "keywords": len(table), "types": dict(counts.most_common())}))
        return
    print(", ".join(f"{count:,} {kind}" for kind, count in counts.most_common()))
    print(f"wrote {len(table):,} keywords to {output}")
