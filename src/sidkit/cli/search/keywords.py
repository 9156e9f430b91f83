"""sidkit search keywords: a dictionary of keywords from a catalogue."""

import json
from collections import Counter
from typing import Annotated

import typer

from ...errors import count_of
from ..options import Force, Json, TableOutput
from ..outputs import TABLES, require_file
from .shared import ShopFolder, shop_table


def keywords(
    shop: ShopFolder,
    output: TableOutput,
    least: Annotated[int, typer.Option("--least", help="Minimum number of items that have a keyword")] = 5,
    most: Annotated[
        int, typer.Option("--most", help="Maximum number of keywords; the most frequent are taken")
    ] = 20_000,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """sidkit search keywords shop -o keywords.parquet

    Collect keywords of eighteen attribute types (Brand, Color, Material, ...) from the fields and titles of a
    catalogue, as a table (keyword, type, count). Delete rows of it to remove keywords. Once they are embedded,
    `sidkit search align --keywords` mixes them into the vectors of queries and items.
    """
    from ...files.table_formats import write_table
    from ...search.keywords.dictionary import FEEDS, dictionary
    from ..printing import command_line

    require_file(output, shop / "items.parquet", endings=TABLES, force=force)
    fields = tuple(dict.fromkeys(feed.field for feed in FEEDS))
    table = dictionary(shop_table(shop, "items", ("item_id",), fields), least, most)
    write_table(output, table.replace_schema_metadata({"sidkit.table": "keywords"}))
    counts = Counter(table.column("type").to_pylist())
    if as_json:
        print(json.dumps({"output": str(output), "keywords": len(table), "types": dict(counts.most_common())}))
        return
    print(", ".join(f"{count:,} {kind}" for kind, count in counts.most_common()))
    columns = {"--text": "keyword", "--id-column": "keyword", "--encoder": "items-emb.encoder"}
    print(
        f"wrote {count_of(len(table), 'keyword')} to {output}; "
        f"next: {command_line('embed', output, options=columns)} -o keywords-emb.parquet"
    )
