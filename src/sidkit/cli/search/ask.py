"""sidkit search ask: the items that a search model finds for a query."""

import json
import sys
from typing import Annotated

import typer

from ..options import Device, Json
from ..swapped import require_order
from .options import Availability, PerSid, Score, Smoothing
from .shared import Model, ranking_options


def ask(
    model: Model,
    query: Annotated[str, typer.Argument(help="What a user types", show_default=False)],
    items: Annotated[int, typer.Option("--items", "-n", help="Items to print")] = 10,
    history: Annotated[
        str | None, typer.Option("--history", help="Ids of items clicked before, oldest first, separated by commas")
    ] = None,
    recent: Annotated[
        list[str] | None, typer.Option("--recent", help="A query that the user typed before; several, oldest first")
    ] = None,
    profile: Annotated[
        str, typer.Option("--profile", help='What is known of the user, as in training: "gender F, age_bucket 31-40"')
    ] = "",
    beams: Annotated[int | None, typer.Option("--beams", help="SIDs generated [default: as trained]")] = None,
    per_sid: PerSid = 5,
    score: Score = "composite",
    smoothing: Smoothing = 10.0,
    availability: Availability = True,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """sidkit search ask run/ "rain jacket kids"

    Print the items that a search model finds, with their semantic IDs and the probability of each. A query that was in
    the log has the SID it had in training; a new one is encoded if the model was trained with --tokenizer and
    --encoder.
    """
    from ...errors import need

    need("torch", "search", "asking a search model")
    from dataclasses import replace

    from ...search.model.model import Request, SearchModel
    from ..printing import print_rows

    ranking = ranking_options(per_sid, items, score, smoothing, availability)
    clicked = tuple(part.strip() for part in (history or "").split(",") if part.strip())
    require_order("search ask", model=model, text=query)
    loaded = replace(SearchModel.load(model, device), ranking=ranking)
    request = Request(query, clicked, tuple(recent or ()), profile)
    codes = loaded.query_codes([query])[0]
    (answers,) = loaded.ask([request], beams)
    sid = loaded.parts.table.write(codes.tolist()) if codes[0] >= 0 else None
    titles = loaded.parts.items.column("title").take([one.row for one in answers]).to_pylist()
    if as_json:
        rows = [
            {"item_id": one.item, "title": title, "sid": one.sid, "probability": one.probability}
            for one, title in zip(answers, titles, strict=True)
        ]
        print(json.dumps({"query": query, "sid": sid, "items": rows}, ensure_ascii=False))
        return
    if sid is None:
        print("this query has no SID: it is new, and the model cannot encode new ones", file=sys.stderr)
    shown = [
        (str(number), str(one.item), title or "", one.sid, f"{one.probability:.2%}")
        for number, (one, title) in enumerate(zip(answers, titles, strict=True), 1)
    ]
    print_rows([f"{query}  {sid or ''}".rstrip(), ""], ["", "item", "title", "SID", "how sure"], shown)
