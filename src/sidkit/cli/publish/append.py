"""sidkit publish append: new items get an ID, known ones keep theirs."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import InputError, SpecError, count_of
from ..collisions import CapacityOption, PopularityOption, weights_of
from ..columns import ColumnNotes, as_fitted
from ..options import Column, Device, IdColumn, Json
from .shared import Note, PolicyOption, RegistryArgument

if TYPE_CHECKING:
    from ...publish.append import Appended
    from ...publish.registry import Registry
    from ...sids.policies import Policy
    from ...tokenizer.tokenizer import FittedTokenizer


def append(
    registry: RegistryArgument,
    items: Annotated[
        str, typer.Argument(help="Embeddings, or SIDs: a file, a folder, a pattern or an address", show_default=False)
    ],
    policy: PolicyOption = None,
    capacity: CapacityOption = None,
    popularity: PopularityOption = None,
    tokenizer: Annotated[
        Path | None, typer.Option("--tokenizer", "-t", help="Folder of the tokenizer, if it was moved, or to adopt")
    ] = None,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="From now on new items are encoded by --tokenizer, aligned with the old one")
    ] = False,
    note: Note = "",
    id_column: IdColumn = None,
    column: Column = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """sidkit publish append registry.db new.parquet

    Publish items as a new generation: all of them, or none if anything fails. Embeddings are encoded by the tokenizer
    of the registry. SIDs that `sidkit encode` wrote are taken as they are; they may be many files, in a folder or on
    s3://. Items that are published already keep the ID they have, so that a file can be appended again without harm.
    Several processes may append at the same time.
    """
    from ...data.embeddings import open_embeddings
    from ...data.source import chosen_columns
    from ...files.address import locate
    from ...publish.append import append as append_items
    from ...publish.registry import open_registry
    from ...publish.sources import from_embeddings, from_sids
    from ...sids.shards import holds_sids
    from ..terminal import Terminal

    with open_registry(registry) as opened, Terminal() as progress:
        chosen = _policy(opened, policy, capacity, popularity)
        fitted, notes = _named(opened, tokenizer, adopt), ColumnNotes()
        latest = opened.generation()
        made_by = (str(Path(str(tokenizer)).resolve()), fitted.digest) if fitted else (latest.tokenizer, latest.digest)
        if holds_sids(items):
            given = from_sids(opened, items, chosen, made_by[1], progress)
        else:
            encoder = fitted or opened.load_tokenizer()
            source = open_embeddings(items, *as_fitted(encoder, items, id_column, column))
            notes.add("embeddings", items, chosen_columns(source))
            weights = weights_of(source, popularity)
            given = from_embeddings(encoder, source, chosen, weights, device, progress)
        done = append_items(opened, given, made_by, str(locate(items)), note, adopt, progress)
    if as_json:
        facts = {name: value for name, value in vars(done).items() if name != "generation"}
        number = done.generation.generation if done.generation else None
        print(
            json.dumps({"registry": opened.name, "generation": number, "policy": chosen.name} | facts | notes.field())
        )
        return
    notes.print()
    _print(registry, done, chosen)


def _policy(registry: "Registry", name: str | None, capacity: int | None, popularity: str | None) -> "Policy":
    """The policy of the options; that of the latest generation without them."""
    from ...sids.policies import Policy, policy_named

    latest = registry.generation()
    unnamed = name is None and capacity is None
    policy = Policy(latest.policy, latest.capacity) if unnamed else policy_named(name or latest.policy, capacity)
    if policy.needs_weights != (popularity is not None):
        raise SpecError(
            "--policy popular and --popularity, a column of numbers in the embeddings' file, belong together"
        )
    return policy


def _named(registry: "Registry", folder: Path | None, adopt: bool) -> "FittedTokenizer | None":
    """The tokenizer in a folder that was named: that of the registry, or another one to adopt."""
    from ...tokenizer.tokenizer import load

    if folder is None:
        if adopt:
            raise SpecError("--adopt takes over another tokenizer; name its folder with --tokenizer")
        return None
    if not adopt:
        return registry.load_tokenizer(folder)
    fitted = load(folder)
    if fitted.sizes != registry.sizes:
        theirs, ours = ("-".join(map(str, sizes)) for sizes in (fitted.sizes, registry.sizes))
        raise InputError(f"{folder} makes SIDs of {theirs}, {registry.name} has those of {ours}; make another registry")
    return fitted


def _print(registry: str, done: "Appended", policy: "Policy") -> None:
    from ..printing import command_line

    if done.generation is None:
        print(f"all {count_of(done.given, 'item')} had an ID already and keep it; nothing changed")
    else:
        print(f"generation {done.generation.generation}: {count_of(done.published, 'item')} published")
        if done.kept:
            print(f"{count_of(done.kept, 'item')} had an ID already and kept it")
    if done.differing:
        print(
            f"{done.differing:,} of these have another SID than the tokenizer gives them now; what is published stays"
        )
    if done.restored:
        print(f"{done.restored:,} of these had been withdrawn, and are back with the IDs they had")
    if done.moved:
        moved = f"{count_of(done.moved, 'new item')} took another last token"
        print(f"policy {policy.name}: {moved}, at a cost of {done.cost:.4g}")
    if done.shared:
        words = "share their SID with others" if policy.capacity == 1 else f"are beyond {policy.capacity} per SID"
        print(f"policy {policy.name}: {count_of(done.shared, 'new item')} {words}, each with a slot of its own")
    if done.generation is not None:
        print(f"next: {command_line('publish', 'export', registry, '-o', 'published/')}")
