"""The description of the API (OpenAPI 3.1), of just the paths that a service has, and a page that shows it."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from .. import __version__
from .bodies import ARROW, JSON
from .options import ServeOptions
from .snapshot import Snapshot

__all__ = ["description", "page"]

ID = {"oneOf": [{"type": "string"}, {"type": "integer"}]}
CODES = {"type": "array", "items": {"type": "integer", "minimum": 0}}
TEXT = {"type": "string"}
ERRORS = {
    400: "The body cannot be read",
    408: "The body did not come in time",
    413: "The body is too large",
    415: "The body is of an unknown type",
    422: "The body does not fit: the error says why",
    429: "Too much work is waiting: try again",
    503: "No answer in time, or the service is ending",
}


EXAMPLES = {
    "/encode": '{"vectors": [[0.1, -0.2, …], …]}',
    "/lookup": '{"items": ["P000017", "P000018"]}',
    "/prefix": '{"prefix": "<a_12><b_3>", "limit": 20}',
    "/recommend": '{"histories": [["P000017", "P000018"]], "k": 10}',
    "/search": '{"queries": ["rain jacket"], "k": 10}',
}  # for people: a page shows them beside the schemas


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _array(items: Any, most: int | None = None, least: int = 0) -> dict[str, Any]:
    bounds = {} if most is None else {"minItems": least, "maxItems": most}
    return {"type": "array", "items": items, **bounds}


def _answer(**properties: Any) -> dict[str, Any]:
    every = {"tokenizer": TEXT, **properties}
    return {"type": "object", "properties": every, "required": list(every)}


def _posts(options: ServeOptions, d: int) -> dict[str, tuple[str, Any, Any]]:
    """Per path: what it does, its request, its answer."""
    most = options.batch_rows
    scored = _object(["item", "sid", "probability"], item=ID, sid=TEXT, probability={"type": "number"})
    vectors = _array(_array({"type": "number"}, d, d), most, 1)
    known = {"oneOf": [CODES, {"type": "null"}]}
    item = _object(["item", "codes", "sid"], item=ID, codes=CODES, sid=TEXT)
    texts = _object(["texts"], texts=_array({"type": "string", "maxLength": 100_000}, most, 1))
    many = {"type": "integer", "minimum": 1, "maximum": 1000}
    count = {"type": "integer", "minimum": 0, "maximum": most}
    return {
        "/encode": (
            "Semantic IDs of vectors, or of texts where the service has an encoder",
            {"oneOf": [_object(["vectors"], vectors=vectors), texts]} if options.encoder else _object(
                ["vectors"], vectors=vectors
            ),
            _answer(codes=_array(CODES), sids=_array(TEXT)),
        ),
        "/lookup": (
            "Semantic IDs of items; null for items that are not known",
            _object(["items"], items=_array(ID, most, 1)),
            _answer(codes=_array(known), sids=_array({"type": ["string", "null"]})),
        ),
        "/prefix": (
            "The items of a semantic ID, or of its first tokens",
            _object(["prefix"], prefix={"oneOf": [TEXT, CODES]}, limit=count, offset={"type": "integer", "minimum": 0}),
            _answer(count={"type": "integer"}, items=_array(item)),
        ),
        "/recommend": (
            "The items that may come next after histories of items, oldest first",
            _object(
                ["histories"],
                histories=_array(_array(ID), most, 1),
                k=many,
                per_sid=many,
                exclude_history={"type": "boolean"},
            ),
            _answer(recommendations=_array(_array(scored)), unknown_items={"type": "integer"}),
        ),
        "/search": (
            "The items for queries",
            _object(["queries"], queries=_array({**TEXT, "minLength": 1, "maxLength": 1000}, most, 1), k=many),
            _answer(answers=_array(_array(scored))),
        ),
    }  # fmt: skip


def description(options: ServeOptions, snapshot: Snapshot, posts: tuple[str, ...]) -> dict[str, Any]:
    error = {"description": "", "content": {JSON: {"schema": _object(["error"], error=TEXT)}}}
    health = {"type": "object", "properties": {"status": TEXT, "tokenizer": TEXT}, "required": ["status", "tokenizer"]}
    paths: dict[str, Any] = {
        "/healthz": {"get": _get("Whether the service is ready", JSON, health)},
        "/metrics": {"get": _get("Figures for Prometheus", "text/plain", TEXT)},
        "/openapi.json": {"get": _get("This description", JSON, {"type": "object"})},
        "/": {"get": _get("This description as a page", "text/html", TEXT)},
    }
    for path, (summary, request, answer) in _posts(options, snapshot.fitted.d).items():
        if path in posts:
            content: dict[str, Any] = {JSON: {"schema": request}}
            answers: dict[str, Any] = {JSON: {"schema": answer}}
            if path == "/encode":
                arrow = {"schema": {"description": "A stream with a column embedding, and item_id if you like"}}
                content, answers = content | {ARROW: arrow}, answers | {ARROW: {}}
            responses = {"200": {"description": "The answer", "content": answers}}
            responses |= {str(status): {**error, "description": why} for status, why in ERRORS.items()}
            body = {"required": True, "content": content}
            paths[path] = {"post": {"summary": summary, "requestBody": body, "responses": responses}}
    api: dict[str, Any] = {"openapi": "3.1.0", "info": {"title": "sidkit", "version": __version__}, "paths": paths}
    if options.token is not None:
        api["components"] = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}}
        api["security"] = [{"token": []}]
    return api


def _get(summary: str, kind: str, schema: Any) -> dict[str, Any]:
    return {"summary": summary, "responses": {"200": {"description": "", "content": {kind: {"schema": schema}}}}}


STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;
margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
h2{margin:2rem 0 .2rem;font:600 1.1rem ui-monospace,monospace}pre{background:#f4f4f4;padding:.8rem;overflow:auto}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#161616}pre{background:#222}}"""


def page(api: dict[str, Any]) -> str:
    """The paths, each with its request and answer, on one page without scripts."""
    parts = []
    for path, methods in api["paths"].items():
        for method, facts in methods.items():
            parts.append(f"<h2>{method.upper()} {escape(path)}</h2><p>{escape(facts['summary'])}</p>")
            if path in EXAMPLES:
                parts.append(f"<pre>{escape(EXAMPLES[path])}</pre>")
            if "requestBody" in facts:
                schema = facts["requestBody"]["content"][JSON]["schema"]
                text = escape(json.dumps(schema, indent=1))
                parts.append(f"<details><summary>Schema of the body ({JSON})</summary><pre>{text}</pre></details>")
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>sidkit</title><style>{STYLE}</style><h1>sidkit serve"
        f"</h1><p>Machines read <a href=openapi.json>openapi.json</a>.</p>{''.join(parts)}</html>"
    )
