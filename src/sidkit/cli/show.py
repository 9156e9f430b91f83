"""sidkit show: the recipes of tokenizers, and the stages of one."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import SpecError
from .options import RecipeOptions
from .parsing import read_options, read_sizes, tokenizer_of


def show(
    recipe: Annotated[str | None, typer.Argument(help="A recipe, or a folder written by `sidkit fit`")] = None,
    sizes: Annotated[str | None, typer.Option("--sizes", help="Codewords per level")] = None,
    option: RecipeOptions = None,
) -> None:
    """sidkit show prq-kmeans --sizes 1024-512-128 --set top_k=5

    A recipe's spec as JSON, which you can change and give to `sidkit fit --spec`. Without a name: the recipes.
    """
    from ..tokenizer.recipes import RECIPES
    from ..tokenizer.spec import to_plain

    if recipe is None and (sizes or option):
        raise SpecError("--sizes and --set are for a recipe; name one, as sidkit show prq-kmeans --sizes 64-32-16")
    if recipe is None:
        for name, make in RECIPES.items():
            print(f"{name:20} {(make.__doc__ or '').splitlines()[0]}")
        return
    if Path(recipe, "config.json").is_file():
        from ..tokenizer.tokenizer import load

        if sizes or option:
            raise SpecError(f"{recipe} is fitted already; --sizes and --set are for recipes")
        stages: Any = load(recipe).spec.stages
    else:
        given = {"sizes": read_sizes(sizes)} if sizes else {}
        stages = tokenizer_of(recipe, given | read_options(option)).stages
    print(json.dumps(to_plain(stages), indent=2))
