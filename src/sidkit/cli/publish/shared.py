"""What the commands of `sidkit publish` share."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from ...errors import SpecError

if TYPE_CHECKING:
    from ...publish.registry import PublishedItem, Registry

RegistryArgument = Annotated[
    str,
    typer.Argument(
        help="SQLite file of the registry, or postgresql://user@host/database, also as --to ADDRESS",
        show_default=False,
    ),
]
GenerationOption = Annotated[
    int | None, typer.Option("--generation", "-g", help="As of this generation [default: the latest]")
]
PolicyOption = Annotated[
    str | None,
    typer.Option(
        "--policy",
        help="What to do about items that would share a SID: keep, counter, nearest, capacity, popular, least-cost or "
        "sinkhorn [default: that of the latest generation]",
        show_default=False,
    ),
]
Note = Annotated[str, typer.Option("--note", help="What the change is for, to be kept with it")]
MostItems = Annotated[int, typer.Option("--limit", help="Maximum number of items to print; 0 for all")]


class WithRegistry(TyperCommand):
    """A command whose first argument may also be given as --to ADDRESS."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for at, word in enumerate(args):
            if word.startswith("--to="):
                args = [word.removeprefix("--to="), *args[:at], *args[at + 1 :]]
                break
            if word == "--to" and at + 1 < len(args):
                args = [args[at + 1], *args[:at], *args[at + 2 :]]
                break
        return super().parse_args(ctx, args)


def require_limit(limit: int) -> int | None:
    """The value of --limit; None for all."""
    if limit < 0:
        raise SpecError(f"--limit must be at least 0, not {limit}")
    return limit or None


def item_facts(registry: "Registry", one: "PublishedItem") -> dict[str, Any]:
    """An item for --json."""
    facts = {"item_id": one.item, "codes": one.codes, "sid": registry.template.write(one.codes), "slot": one.slot}
    return facts | {"generation": one.generation} | ({"withdrawn": one.withdrawn} if one.withdrawn else {})
