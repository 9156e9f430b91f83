"""sidkit publish list: the generations of a registry."""

import json
from typing import TYPE_CHECKING

from ..options import Json
from .shared import RegistryArgument

if TYPE_CHECKING:
    from ...publish.tables import Generation


def list(registry: RegistryArgument, as_json: Json = False) -> None:
    """sidkit publish list registry.db

    List the generations: when each was published, what it did, and how many items the registry had after it.
    """
    from ...publish.registry import open_registry
    from ..printing import print_rows

    with open_registry(registry) as opened:
        generations = opened.generations()
    if as_json:
        facts = {"registry": opened.name, "uuid": opened.uuid, "sizes": opened.sizes}
        print(json.dumps(facts | {"generations": [one.facts() for one in generations]}, ensure_ascii=False))
        return
    rows = [
        (str(one.generation), one.created[:10], _change(one), f"{one.items:,}", one.digest[:8], one.note)
        for one in generations
    ]
    lines = [f"{opened.name}: SIDs of {'-'.join(map(str, opened.sizes))}", ""]
    print_rows(lines, ("", "UTC", "change", "items", "tokenizer", "note"), rows)


def _change(one: "Generation") -> str:
    """append: 300 published, 200 kept"""
    counts = {name: getattr(one, name) for name in ("published", "kept", "restored", "withdrawn")}
    words = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    return f"{one.kind}: {words}" if words else one.kind
