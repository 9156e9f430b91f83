"""The application all commands join, and how it is run."""

import sys
from typing import Annotated

import typer

from .. import __version__
from ..errors import SidkitError

app = typer.Typer(
    name="sidkit",
    help="Semantic IDs: from embeddings to short hierarchical token sequences.\n\nStart with: sidkit demo",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


INTERRUPTED = 130  # what shells call a process stopped by Ctrl-C


@app.callback(invoke_without_command=True)
def _top(version: Annotated[bool, typer.Option("--version", help="Print the version and leave")] = False) -> None:
    if version:
        print(f"sidkit {__version__}")
        raise typer.Exit


def _farewell(code: int) -> int:
    if code == INTERRUPTED:
        told = "stopped; nothing was left half-written (fit, encode, embed and train go on with --resume)"
        print(told, file=sys.stderr)
    return code


def main() -> None:
    """Run the command line; errors become one line and an exit code, never a traceback."""
    usage_error = typer.BadParameter.__mro__[2]  # click's base exception, wherever this Typer keeps click
    try:
        code = app(standalone_mode=False)
        sys.exit(_farewell(code if isinstance(code, int) else 0))
    except typer.Exit as leave:
        sys.exit(_farewell(leave.exit_code))
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(_farewell(INTERRUPTED))
    except SidkitError as error:
        from .terminal import plain  # messages name items

        print("error:", "\n".join(map(plain, str(error).split("\n"))), file=sys.stderr)
        sys.exit(1)
    except MemoryError as error:
        print(f"error: there is not enough memory: {error}", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except usage_error as error:  # type: ignore[misc]
        told, context = error.format_message(), getattr(error, "ctx", None)
        asked = f"; see {context.command_path} --help" if context else ""
        print(told if "\n" in told else f"error: {told.rstrip('.')}{asked}", file=sys.stderr)  # the former is a help
        sys.exit(error.exit_code)
