"""sidkit publish diff: what changed between two generations."""

import json
from collections import Counter
from itertools import islice
from typing import Annotated

import typer

from ...errors import count_of
from ..options import Json
from .shared import MostItems, RegistryArgument, item_facts, require_limit


def diff(
    registry: RegistryArgument,
    before: Annotated[int, typer.Argument(help="The older generation", show_default=False)],
    after: Annotated[int, typer.Argument(help="The newer generation", show_default=False)],
    limit: MostItems = 20,
    as_json: Json = False,
) -> None:
    """sidkit publish diff registry.db 0 1

    List the items that one generation has and the other has not: published, restored or withdrawn. Nothing else can
    differ, because a published ID never moves.
    """
    from ...publish.changes import PUBLISHED, RESTORED, WITHDRAWN, changes
    from ...publish.registry import open_registry
    from ..printing import print_rows

    most, counts = require_limit(limit), Counter[str]()
    with open_registry(registry) as opened:
        found = changes(opened, before, after)
        shown = []
        for one in islice(found, most):
            counts[one.what] += 1
            shown.append({"change": one.what} | item_facts(opened, one.item))
        counts.update(one.what for one in found)
    totals = {name: counts[name] for name in (PUBLISHED, RESTORED, WITHDRAWN)}
    if as_json:
        print(json.dumps({"before": before, "after": after} | totals | {"items": shown}, ensure_ascii=False))
        return
    words = ", ".join(f"{count:,} {name}" for name, count in totals.items())
    rows = [(one["change"], str(one["item_id"]), one["sid"], str(one["slot"])) for one in shown]
    lines = [f"from generation {before} to {after}: {words}", ""]
    print_rows(lines, ("change", "item", "SID", "slot"), rows)
    if (more := counts.total() - len(shown)) > 0:
        print(f"… and {count_of(more, 'more change')} (--limit 0 shows all)")
