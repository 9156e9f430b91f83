"""sidkit search simulate: a simulated shop and a log of searches in it."""

import json
from enum import StrEnum
from typing import Annotated

import typer

from ...errors import count_of
from ..options import Force, Json, Output
from ..outputs import require_folder
from ..parsing import require_seed


class WrittenAs(StrEnum):
    shop = "shop"
    kuaisearch = "kuaisearch"


def simulate(
    output: Output,
    items: Annotated[int, typer.Option("--items", help="Items of the shop")] = 100_000,
    rows: Annotated[int | None, typer.Option("--rows", help="Searches in the log [default: two per item]")] = None,
    users: Annotated[
        int | None, typer.Option("--users", help="Users who search [default: one per twelve searches]")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same shop")] = 0,
    test_share: Annotated[
        float, typer.Option("--test-share", help="Share of the searches that are the test: the latest")
    ] = 0.1,
    pairs: Annotated[
        int, typer.Option("--pairs", help="Maximum number of test pairs of clicks, and of orders")
    ] = 30_000,
    layout: Annotated[
        WrittenAs, typer.Option("--layout", help="Write a shop, or the files that KuaiSearch is released as")
    ] = WrittenAs.shop,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """sidkit search simulate -o shop/ --items 2000

    Simulate a shop: products, users with profiles and tastes, and a log of what they searched for, were shown, clicked
    and ordered. Queries are precise, broad or weak, and some are misspelt; the log is split by time. The same seed
    gives the same bytes. With two searches per item, 100,000 items take about half a minute.
    """
    from ...search.shop.write import require_shop_folder
    from ...search.simulate import ShopPlan, simulate_shop
    from ...search.simulate.released import require_released_folder, write_released
    from ..printing import command_line
    from ..terminal import Terminal
    from .printing import print_shop

    require_seed(seed)
    check = require_shop_folder if layout is WrittenAs.shop else require_released_folder
    require_folder(output, check, force)
    plan = ShopPlan.of(items, rows, users, seed=seed, test_share=test_share, pairs=pairs)
    if layout is WrittenAs.shop:
        with Terminal() as progress:
            facts = simulate_shop(output, plan, progress)
        print_shop(output, facts, as_json)
        return
    with Terminal() as progress:
        lines = write_released(output, plan, progress)
    if as_json:
        print(json.dumps({"output": str(output), "lines": lines}))
        return
    print(f"wrote {output}: " + ", ".join(f"{count_of(count, 'line')} of {name}" for name, count in lines.items()))
    print(f"next: {command_line('search', 'read', 'kuaisearch', output, '-o', 'shop/')}")
