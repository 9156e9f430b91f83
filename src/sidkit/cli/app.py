"""The application all commands join, and how it is run."""

import sys
from inspect import cleandoc
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


COMMANDS = {  # as `sidkit --help` lists them; their own help starts with an example
    "demo": "Everything once, on a shop that is made up",
    "embed": "Embeddings of texts",
    "blend": "Embeddings with what people do beside them",
    "advise": "Which codebook sizes to take",
    "fit": "A tokenizer from embeddings",
    "encode": "Semantic IDs of embeddings, by a fitted tokenizer",
    "report": "How good semantic IDs are: a verdict and its figures",
    "lookup": "The semantic ID of an item, the items of a semantic ID",
    "explore": "The tree of semantic IDs, in a browser",
    "judge": "What semantic IDs are worth, before any training",
    "show": "The recipes of tokenizers, and what one is made of",
    "compare": "Tokenizers side by side, over several seeds",
    "train": "A generative recommender over semantic IDs",
    "evaluate": "How well a trained recommender recommends",
}
INTERRUPTED = 130  # what shells call a process stopped by Ctrl-C


@app.callback(invoke_without_command=True)
def _top(version: Annotated[bool, typer.Option("--version", help="Print the version and leave")] = False) -> None:
    if version:
        print(f"sidkit {__version__}")
        raise typer.Exit


def list_commands() -> None:
    """Put the commands in order, with a line on each for `sidkit --help`, and keep their examples in one piece."""
    by_name = {command.callback.__name__: command for command in app.registered_commands if command.callback}
    for name, command in by_name.items():
        command.short_help = COMMANDS[name]
    app.registered_commands.sort(key=[by_name[name] for name in COMMANDS].index)
    groups = [group.typer_instance for group in app.registered_groups if group.typer_instance]
    for command in [*by_name.values(), *(one for group in groups for one in group.registered_commands)]:
        paragraphs = cleandoc(command.callback.__doc__ or "").split("\n\n")
        command.help = "\n\n".join(f"\b\n{one}" if one.startswith("sidkit ") else one for one in paragraphs)


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
