"""Every command, in the order of `sidkit --help`. Commands are registered here and nowhere else."""

from collections.abc import Callable, Mapping, Sequence
from inspect import cleandoc
from types import MappingProxyType
from typing import Any, NamedTuple

import typer

from .advise import advise
from .blend import blend
from .case.collisions import collisions
from .case.query import query
from .compare import compare
from .data.amazon import amazon
from .data.lastfm import lastfm
from .demo import demo
from .diff import diff
from .embed import embed
from .encode import encode
from .evaluate import evaluate
from .explore import explore
from .export import export
from .fit import fit
from .import_ import import_
from .judge import judge
from .lookup import lookup
from .publish.align import align as align_refit
from .publish.append import append
from .publish.diff import diff as diff_generations
from .publish.export import export as export_generation
from .publish.init import init
from .publish.list import list as list_generations
from .publish.shared import WithRegistry
from .publish.show import show as show_published
from .publish.watch import watch
from .publish.withdraw import withdraw
from .ray import WithRay
from .recommend import recommend
from .report import report
from .resolve import resolve
from .search.align import align
from .search.ask import ask
from .search.demo import demo as search_demo
from .search.evaluate import evaluate as evaluate_search
from .search.keywords import keywords
from .search.read.clicks import clicks
from .search.read.judgements import judgements
from .search.read.kuaisearch import kuaisearch
from .search.read.log import log
from .search.simulate import simulate
from .search.train import train as train_search
from .serve import serve
from .show import show
from .train import train
from .trie import trie

__all__ = ["COMMANDS", "GROUPS", "register"]


class Command(NamedTuple):
    call: Callable[..., Any]  # its docstring is its help and starts with an example
    summary: str  # one line for `sidkit --help`
    cls: type[Any] | None = None


class Group(NamedTuple):
    summary: str
    commands: tuple[Command, ...]
    groups: "Mapping[str, Group]" = MappingProxyType({})


COMMANDS = (
    Command(demo, "Run every step once, on a simulated shop"),
    Command(embed, "Embed texts", WithRay),
    Command(blend, "Add co-occurrence vectors to embeddings"),
    Command(advise, "Recommend codebook sizes"),
    Command(fit, "Fit a tokenizer to embeddings", WithRay),
    Command(encode, "Give embeddings their semantic IDs", WithRay),
    Command(resolve, "Decide what happens to items that share a semantic ID"),
    Command(diff, "List what changed between two sets of semantic IDs"),
    Command(report, "Report how good semantic IDs are: a verdict and its figures"),
    Command(lookup, "Look up the semantic ID of an item, or the items of a semantic ID"),
    Command(explore, "Explore the tree of semantic IDs in a browser"),
    Command(judge, "Judge semantic IDs before any training"),
    Command(show, "Show the recipes of tokenizers, and the stages of one"),
    Command(compare, "Compare tokenizers over several seeds"),
    Command(train, "Train a generative recommender on semantic IDs"),
    Command(evaluate, "Evaluate a trained recommender"),
    Command(export, "Export semantic IDs to the formats of other programs"),
    Command(import_, "Import semantic IDs that someone else made"),
    Command(recommend, "Recommend items by a trained recommender"),
    Command(trie, "Write a catalogue of semantic IDs for constrained decoding"),
    Command(serve, "Serve semantic IDs over HTTP"),
)
GROUPS = {
    "case": Group(
        "Follow items and queries through two tokenizers.",
        (
            Command(collisions, "Follow items that share a SID through another tokenizer"),
            Command(query, "Show the prefix of a query under each tokenizer"),
        ),
    ),
    "data": Group(
        "Make items and sequences from public datasets.",
        (
            Command(amazon, "Make them from Amazon's reviews and metadata of 2014"),
            Command(lastfm, "Make them from Last.fm of HetRec 2011"),
        ),
    ),
    "publish": Group(
        "Publish semantic IDs that stay with their items.",
        (
            Command(init, "Make a registry of published semantic IDs", WithRegistry),
            Command(append, "Publish items: new ones get an ID, known ones keep theirs", WithRegistry),
            Command(list_generations, "List the generations of a registry", WithRegistry),
            Command(show_published, "Show a published item, or the items of a SID or prefix", WithRegistry),
            Command(diff_generations, "List what changed between two generations", WithRegistry),
            Command(withdraw, "Withdraw items, or all that a generation published", WithRegistry),
            Command(export_generation, "Write a generation as Parquet files", WithRegistry),
            Command(watch, "Test whether new items are still like those of the fit", WithRegistry),
            Command(align_refit, "Renumber the codes of a refit, so that items keep their tokens"),
        ),
    ),
    "search": Group(
        "Generative search: queries and items share semantic IDs.",
        (
            Command(search_demo, "Run every step once, from a simulated shop to an answer"),
            Command(simulate, "Simulate a shop and a log of searches"),
            Command(keywords, "Collect a dictionary of keywords from a catalogue"),
            Command(align, "Align queries and items in one space, by clicks"),
            Command(train_search, "Train a model that answers queries with semantic IDs"),
            Command(evaluate_search, "Evaluate a search model beside BM25, nearest neighbours and counting"),
            Command(ask, "Print the items for a query"),
        ),
        {
            "read": Group(
                "Read a shop from released or exported data.",
                (
                    Command(log, "Read a shop from a log of searches"),
                    Command(clicks, "Read a shop from counted query-item pairs"),
                    Command(judgements, "Read a shop from judged query-item pairs"),
                    Command(kuaisearch, "Read a shop from the files of KuaiSearch"),
                ),
            ),
        },
    ),
}


def register(app: typer.Typer, words: Sequence[str] | None = None) -> None:
    """Add every command to the application.

    words: of the command line that it is for. A command that is not among them is added without its options, which
    Typer takes long to build; the list of commands is the same.
    """
    _add(app, COMMANDS, words)
    _add_groups(app, GROUPS, words)


def _add_groups(app: typer.Typer, groups: Mapping[str, Group], words: Sequence[str] | None) -> None:
    for name, group in groups.items():
        inner = typer.Typer(name=name, help=group.summary, no_args_is_help=True)
        _add(inner, group.commands, words)
        _add_groups(inner, group.groups, words)
        app.add_typer(inner)


def _add(app: typer.Typer, commands: tuple[Command, ...], words: Sequence[str] | None) -> None:
    for one in commands:
        if words is not None and one.call.__name__ not in words:
            app.command(one.call.__name__, short_help=one.summary)(_not_called)
            continue
        app.command(one.call.__name__, cls=one.cls, short_help=one.summary, help=_help(one.call))(one.call)


def _not_called() -> None:
    """Stands for a command of which only the name and the summary are needed."""


def _help(call: Callable[..., Any]) -> str:
    """The docstring, its examples kept in one piece."""
    paragraphs = cleandoc(call.__doc__ or "").split("\n\n")
    return "\n\n".join(f"\b\n{one}" if one.startswith("sidkit ") else one for one in paragraphs)
