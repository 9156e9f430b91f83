"""sidkit publish init: a registry for the semantic IDs of a tokenizer."""

import json
from pathlib import Path
from typing import Annotated

import typer

from ..collisions import CapacityOption
from ..options import Json, TemplateOption
from .shared import Note, RegistryArgument


def init(
    registry: RegistryArgument,
    tokenizer: Annotated[
        Path, typer.Option("--tokenizer", "-t", help="Folder written by `sidkit fit`", show_default=False)
    ],
    template: TemplateOption = "letters",
    policy: Annotated[
        str, typer.Option("--policy", help="For items that would share a SID, unless an append names another")
    ] = "keep",
    capacity: CapacityOption = None,
    note: Note = "",
    as_json: Json = False,
) -> None:
    """sidkit publish init registry.db --tokenizer tok/

    Make a registry of published semantic IDs: an item that is in it keeps its ID, and no other item ever gets it. The
    registry is a file, or a schema of a PostgreSQL database if several machines publish.
    """
    from ...publish.registry import create_registry
    from ...sids.policies import policy_named
    from ..printing import command_line

    chosen = policy_named(policy, capacity)
    with create_registry(registry, tokenizer, template, chosen, note) as made:
        facts = {"registry": made.name, "uuid": made.uuid, "sizes": made.sizes, "policy": chosen.name}
        if as_json:
            print(json.dumps(facts | {"tokenizer_digest": made.generation().digest}))
            return
        following = command_line("publish", "append", registry, "items.parquet")
        print(f"made {made.name} for SIDs of {'-'.join(map(str, made.sizes))}; next: {following}")
