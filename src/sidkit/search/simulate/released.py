"""A simulated shop in the files that KuaiSearch is released as: the same items, searches, results and users.

Ids are the numbers in the ids of the shop. It is a large input without a download, to try `sidkit search read` on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ...files.atomic import replace_folder
from ...files.ours import require_own_folder
from ...progress import Progress, Silent
from .make import ShopPlan, Simulation

__all__ = ["require_released_folder", "write_released"]

TABLES = ("items", "recall", "rank", "users")
UNKNOWN = "UNKNOWN"


def require_released_folder(output: Path) -> None:
    """An error for a folder with other files than those that `write_released` writes."""
    if output.is_dir() and {entry.name for entry in output.iterdir()} - set(TABLES):
        require_own_folder(output, "data of KuaiSearch")


def write_released(output: Path, plan: ShopPlan, progress: Progress | None = None) -> dict[str, int]:
    """Write items, recall, rank and users, each as FOLDER/train.jsonl; how many lines each has."""
    require_released_folder(output)
    progress = progress or Silent()
    made, lines, prices = Simulation(plan), {}, list[float]()

    def items() -> Iterator[dict[str, Any]]:
        for table in made.items():
            prices.extend(table["price"].to_pylist())
            progress.advance(len(table))
            yield from map(_item, table.to_pylist())

    with replace_folder(output) as folder:
        progress.start("items", plan.items)
        lines["items"] = _write(folder / "items", items())
        progress.start("log", plan.rows)
        (folder / "recall").mkdir()
        (folder / "rank").mkdir()
        lines |= {"recall": 0, "rank": 0}
        with (
            (folder / "recall" / "train.jsonl").open("w", encoding="utf-8") as recall,
            (folder / "rank" / "train.jsonl").open("w", encoding="utf-8") as rank,
        ):
            for table in made.log():
                for row in table.to_pylist():
                    recall.write(_line(_search(row)))
                    results = [_line(one) for one in _results(row, prices)]
                    rank.writelines(results)
                    lines["rank"] += len(results)
                lines["recall"] += len(table)
                progress.advance(len(table))
        lines["users"] = _write(folder / "users", map(_user, made.users().to_pylist()))
    return lines


def _write(folder: Path, rows: Iterable[dict[str, Any]]) -> int:
    folder.mkdir()
    count = 0
    with (folder / "train.jsonl").open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(_line(row))
            count += 1
    return count


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


def _item(row: dict[str, Any]) -> dict[str, Any]:
    levels = {f"category_level{level}_name": row[f"category_{level}"] or UNKNOWN for level in (1, 2, 3)}
    return {
        "item_id": int(row["item_id"][1:]),
        "item_title": row["title"],
        "brand_name": row["brand"] or UNKNOWN,
        "seller_name": row["seller"] or UNKNOWN,
        **levels,
    }


def _search(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "user_id": int(row["user"][1:]),
        "session_id": row["session"],
        "impressed_item_ids": [item + 1 for item in row["shown"]],
        "clicked_item_ids": [item + 1 for item in row["clicked"]],
        "purchased_item_ids": [item + 1 for item in row["ordered"]],
        "time_index": row["time"],
        "query": row["query"],
        "split": "train",
    }


def _results(row: dict[str, Any], prices: list[float]) -> Iterator[dict[str, Any]]:
    """A row per result that was shown."""
    clicked, ordered = set(row["clicked"]), set(row["ordered"])
    for item in row["shown"]:
        yield {
            "user_id": int(row["user"][1:]),
            "session_id": row["session"],
            "time_index": row["time"],
            "query": row["query"],
            "target_item_id": item + 1,
            "target_item_price": prices[item],
            "is_clicked": int(item in clicked),
            "is_purchased": int(item in ordered),
            "split": "train",
        }


def _user(row: dict[str, Any]) -> dict[str, Any]:
    known = {"fre_country": UNKNOWN, "fre_province": UNKNOWN, "fre_city": row["city"]}
    return {"user_id": int(row["user"][1:]), "gender": row["gender"], "age_bucket": row["age_bucket"], **known}
