"""sidkit publish show: the ID of a published item, and the items of an ID or a prefix."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import InputError, count_of
from ..options import Json
from .shared import GenerationOption, MostItems, RegistryArgument, item_facts, require_limit

if TYPE_CHECKING:
    from ...publish.registry import Registry


def show(
    registry: RegistryArgument,
    what: Annotated[str, typer.Argument(help="An item id, a SID, or the first tokens of one", show_default=False)],
    generation: GenerationOption = None,
    limit: MostItems = 20,
    as_json: Json = False,
) -> None:
    """sidkit publish show registry.db P000017

    Look up an item, also one that was withdrawn; or the items of a SID or a prefix, today or as of a generation. SIDs
    may be written as in the registry, by letters or as numbers (12-3-77).
    """
    from ...publish.registry import open_registry
    from ..printing import print_rows

    most = require_limit(limit)
    with open_registry(registry) as opened:
        number = opened.generation(generation).generation
        item = opened.find(what, number)
        prefix = item.codes if item else _prefix(opened, what, number)
        count = opened.count(prefix, number)
        found = [item] if item else opened.under(prefix, number, most)
        facts = [item_facts(opened, one) for one in found]
        written = opened.template.write_prefix(prefix, len(opened.sizes))
    if as_json:
        print(json.dumps({"generation": number, "prefix": prefix, "count": count, "items": facts}, ensure_ascii=False))
        return
    rows = [
        (str(one["item_id"]), one["sid"], str(one["slot"]), str(one["generation"]), str(one.get("withdrawn", "")))
        for one in facts
    ]
    lines = [f"{written} in generation {number}: {count_of(count, 'item')}", ""]
    print_rows(lines, ("item", "SID", "slot", "published in", "withdrawn in"), rows)
    if not item and count > len(found):
        print(f"… and {count - len(found):,} more (--limit 0 shows all)")


def _prefix(registry: "Registry", what: str, generation: int) -> tuple[int, ...]:
    """The codes of a SID or a prefix that items have."""
    from ...sids.template import read_sid

    try:
        prefix = read_sid(what, registry.template)
    except InputError:
        example = registry.template.example()
        raise InputError(f"no item {what!r} in {registry.name}, and no SID either; write one as {example!r}") from None
    if not registry.under(prefix, generation, 1):
        raise InputError(
            f"{what!r} is neither an item nor a prefix of one in generation {generation} of {registry.name}"
        )
    return prefix
