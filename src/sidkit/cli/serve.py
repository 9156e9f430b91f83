"""sidkit serve: semantic IDs online."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from ..errors import SpecError, count_of


def serve(
    tokenizer: Annotated[Path, typer.Argument(help="Folder written by `sidkit fit`", show_default=False)],
    sids: Annotated[
        str | None, typer.Option("--sids", help="SIDs to look up: a file of `encode`, or a registry of `publish`")
    ] = None,
    encoder: Annotated[
        Path | None, typer.Option("--encoder", help="Encoder of `sidkit embed`, to encode texts")
    ] = None,
    retriever: Annotated[Path | None, typer.Option("--run", help="Run of `sidkit train`, for /recommend")] = None,
    search: Annotated[
        Path | None, typer.Option("--search", help="Folder of `sidkit search train`, for /search")
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen at; any but a loopback address requires a token")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="0 for any free port")] = 8418,
    workers: Annotated[int, typer.Option("--workers", help="Processes that share the socket")] = 1,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", help="File with the token of clients [default: $SIDKIT_TOKEN, or a new one]"),
    ] = None,
    body: Annotated[int, typer.Option("--max-body", help="Largest request, in MiB")] = 64,
    batch: Annotated[int, typer.Option("--max-batch", help="Most vectors, texts or items of a request")] = 65_536,
    queue: Annotated[int, typer.Option("--max-queue", help="Most vectors that wait to be encoded")] = 262_144,
    connections: Annotated[int, typer.Option("--max-connections", help="Most connections of a process")] = 1024,
    seconds: Annotated[float, typer.Option("--timeout", help="Seconds for a request to be read and answered")] = 30.0,
    reload_every: Annotated[
        float, typer.Option("--reload-every", help="Seconds between looks for a new tokenizer; 0: only at SIGHUP")
    ] = 2.0,
    check: Annotated[bool, typer.Option("--check", help="Load everything, print a summary, and end")] = False,
) -> None:
    """sidkit serve tok/ --sids sids.parquet

    POST /encode, /lookup, /prefix, and /recommend and /search where their models are given; GET /healthz, /metrics,
    /openapi.json, and / for a page about them. A new tokenizer in the folder is loaded without losing a request;
    SIGTERM answers what has come and ends. docs/serving.md
    """
    from ..serve.options import ServeOptions
    from ..serve.run import run
    from ..serve.snapshot import Snapshot
    from ..web.guard import is_loopback

    if not 0 <= port < 1 << 16 or workers < 1 or connections < 1:
        raise SpecError("--port is 0 to 65535; --workers and --max-connections are at least 1")
    token = _token(token_file)
    new = token is None and not is_loopback(host)
    if new:
        from ..web.guard import new_token

        token = new_token()
    options = ServeOptions(
        str(tokenizer),
        sids,
        _text(encoder),
        _text(retriever),
        _text(search),
        token,
        body_bytes=body << 20,
        batch_rows=batch,
        queue_rows=max(queue, batch),
        seconds=seconds,
        reload_every=reload_every,
    )
    if check:
        snapshot = Snapshot.load(options)
        count = "" if snapshot.published is None else f", {count_of(len(snapshot.published), 'item')}"
        print(f"{tokenizer}: tokenizer {snapshot.fitted.digest}, vectors of {snapshot.fitted.d} numbers{count}")
        return

    def ready(url: str) -> None:
        print(f"serving at {url} (Ctrl-C ends)", flush=True)
        if new:
            print(f"clients send: Authorization: Bearer {token}", flush=True)

    with suppress(KeyboardInterrupt):
        run(options, host, port, workers, ready, connections)
    print("service ended", file=sys.stderr)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _token(file: Path | None) -> str | None:
    """What clients must send, from a file or the environment; None if neither names one."""
    if file is None:
        return os.environ.get("SIDKIT_TOKEN") or None
    try:
        token = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"cannot read the token in {file}: {error}") from None
    if len(token) < 16 or any(character.isspace() for character in token):
        raise SpecError(f"the token in {file} must have at least 16 characters and no blanks")
    return token
