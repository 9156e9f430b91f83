"""The application that all commands are registered in, and how it is run."""

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated, Any, cast

import typer

from .. import __version__
from ..errors import SidkitError
from ..files.lock import unlock_outputs
from .commands import register
from .outputs import print_replaced
from .waiting import let_threads_sleep

INTERRUPTED = 130  # the exit code that shells give a process stopped by Ctrl-C


def application(words: Sequence[str] | None = None) -> typer.Typer:
    """The application with all its commands; words: see `commands.register`."""
    app = typer.Typer(
        name="sidkit",
        help="Semantic IDs: from embeddings to short hierarchical token sequences.\n\nStart with: sidkit demo",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback(invoke_without_command=True)(_top)
    register(app, words)
    return app


def _top(version: Annotated[bool, typer.Option("--version", help="Print the version")] = False) -> None:
    if version:
        print(f"sidkit {__version__}")
        raise typer.Exit


def _exit_code(code: int) -> int:
    """The exit code, after a word on what Ctrl-C stopped."""
    if code == INTERRUPTED:
        print("stopped; no file is half-written (fit, encode, embed and train resume with --resume)", file=sys.stderr)
    return code


def _say_warnings() -> None:
    """Warnings meant for users are printed as one line, without the place in the code that gave them."""
    usual = warnings.showwarning

    def say(message: Warning | str, category: type[Warning], *rest: Any, **named: Any) -> None:
        if category is UserWarning:
            print(f"warning: {message}", file=sys.stderr)
        else:
            usual(message, category, *rest, **named)

    warnings.showwarning = cast(Any, say)


def main() -> None:
    """Run the command line; errors become one line and an exit code, never a traceback."""
    let_threads_sleep()
    _say_warnings()
    usage_error = typer.BadParameter.__mro__[2]  # click's base exception, wherever this Typer keeps click
    try:
        print_replaced(say=False)
        code = application(sys.argv[1:])(standalone_mode=False)
        print_replaced()
        sys.stdout.flush()
        sys.exit(_exit_code(code if isinstance(code, int) else 0))
    except typer.Exit as error:
        sys.exit(_exit_code(error.exit_code))
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(_exit_code(INTERRUPTED))
    except SidkitError as error:
        from .terminal import plain  # messages name items

        print("error:", "\n".join(map(plain, error.typed.split("\n"))), file=sys.stderr)
        sys.exit(1)
    except MemoryError as error:
        print(f"error: there is not enough memory: {error}", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:  # as `head` does; what is left in the buffer goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except usage_error as error:  # type: ignore[misc]
        message, context = error.format_message(), getattr(error, "ctx", None)
        hint = f"; see {context.command_path} --help" if context else ""
        is_help = "\n" in message
        print(message if is_help else f"error: {message.rstrip('.')}{hint}", file=sys.stderr)
        sys.exit(error.exit_code)
    finally:
        unlock_outputs()
