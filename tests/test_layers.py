"""The architecture is the folder list: imports point down it, lazy ones included, and never in a circle."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "sidkit"

# From the bottom to the top: a layer may import the lines above it, and nothing below it.
LAYERS = (
    "errors progress geometry",
    "engine",
    "files",
    "rows",
    "data",
    "sids",
    "stages",
    "tokenizer",
    "sklearn",
    "fleet",
    "embed",
    "measure",
    "report",
    "web",
    "advice explore",
    "decoding",
    "retriever",
    "search",
    "publish",
    "export",
    "serve",
    "demo",
    "cli",
    "moved",
    "__init__ __main__",
)
LEVEL = {name: level for level, line in enumerate(LAYERS) for name in line.split()}


def _modules() -> dict[str, Path]:
    """Dotted name below `sidkit` -> file; a package goes by its own name."""
    modules = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
        modules[name] = path
    return modules


MODULES = _modules()


@cache
def _nodes(name: str) -> list[ast.AST]:
    """All nodes of a module, parsed once."""
    return list(ast.walk(ast.parse(MODULES[name].read_text(encoding="utf-8"))))


def _is_typing(test: ast.expr) -> bool:
    return "TYPE_CHECKING" in ast.unparse(test)


def _imports(name: str, types: bool) -> set[str]:
    """The modules that a module imports, wherever in it the import stands; with types also those for annotations."""
    path = MODULES[name]
    package = [] if name == "__init__" else name.split(".")
    package = package if path.name == "__init__.py" else package[:-1]
    imported: set[str] = set()
    waiting: list[ast.AST] = [_nodes(name)[0]]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and _is_typing(node.test) and not types:
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            words = [*start, *(node.module or "").split(".")] if node.module else start
            if not node.level:
                if words[0] != "sidkit":
                    continue
                words = words[1:]
            for alias in node.names:
                imported |= _resolved(words, alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                first, *rest = alias.name.split(".")
                if first == "sidkit":
                    imported |= _resolved(rest, "")
    return imported - {name}


def _resolved(words: list[str], name: str) -> set[str]:
    """`from words import name` as the module that is imported. The version is a fact, not a module."""
    for one in (".".join([*words, name]), ".".join(words)):
        if one in MODULES:
            return {one}
    return set() if name == "__version__" or not words else {"__init__"}


def _layer(name: str) -> str:
    return name.split(".")[0]


def test_every_module_belongs_to_a_layer():
    assert {_layer(name) for name in MODULES} == set(LEVEL)


def test_no_import_points_up():
    up = [
        f"{name} -> {other}"
        for name in MODULES
        for other in sorted(_imports(name, types=True))
        if _layer(name) != _layer(other) and LEVEL[_layer(name)] <= LEVEL[_layer(other)]
    ]
    assert up == []


def test_no_modules_import_each_other_in_a_circle():
    graph = {name: _imports(name, types=False) for name in MODULES}
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> None:
        assert name not in path, " -> ".join([*path[path.index(name) :], name])
        if name not in done:
            for other in sorted(graph[name]):
                visit(other, [*path, name])
            done.add(name)

    for name in MODULES:
        visit(name, [])


def test_the_root_holds_at_most_six_modules():
    assert len(list(SOURCE.glob("*.py"))) <= 6


def test_the_design_shows_the_same_layers():
    design = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    block = re.search(r"```layers\n(.*?)```", design, re.S)
    assert block, "docs/design.md has no block of layers"
    shown = [re.split(r"\s{2,}", line)[0] for line in block[1].splitlines() if line.strip()]
    assert shown == [line for line in LAYERS if "__init__" not in line and line != "moved"]


def _definitions(kind: type[ast.AST]) -> list[tuple[str, ast.AST]]:
    return [(name, node) for name in MODULES for node in _nodes(name) if isinstance(node, kind)]


def test_no_function_is_longer_than_sixty_lines():
    """Kernels aside, and the signatures of commands."""
    long = [
        f"{name}.{node.name}"
        for name, node in _definitions(ast.FunctionDef)
        if "triton" not in name
        and node.end_lineno - (node.body[0].lineno if _layer(name) == "cli" else node.lineno) + 1 > 60
    ]
    assert long == []


def test_a_class_name_has_one_meaning():
    homes: dict[str, list[str]] = {}
    for name, node in _definitions(ast.ClassDef):
        homes.setdefault(node.name, []).append(name)
    assert {name: modules for name, modules in homes.items() if len(modules) > 1} == {}


def test_a_command_is_in_the_file_of_its_name():
    """`sidkit search read log` is the function `log` of cli/search/read/log.py."""
    from sidkit.cli.commands import COMMANDS, GROUPS

    def homes(commands, groups, path):
        for one in commands:
            yield one.call.__module__, ".".join(["sidkit.cli", *path, one.call.__name__])
        for name, group in groups.items():
            yield from homes(group.commands, group.groups, [*path, name])

    wrong = [
        (module, expected) for module, expected in homes(COMMANDS, GROUPS, []) if module.rstrip("_") != expected
    ]  # import_.py
    assert wrong == []


def test_triton_kernels_are_in_folders_called_triton_and_document_their_shapes():
    kernels = [
        (name, node)
        for name, node in _definitions(ast.FunctionDef)
        if any("triton.jit" in ast.unparse(mark) or "autotune" in ast.unparse(mark) for mark in node.decorator_list)
    ]
    assert len(kernels) > 40
    outside = [f"{name}.{node.name}" for name, node in kernels if "triton" not in name.split(".")]
    assert outside == []
    shape = re.compile(
        r"\(\w+,[^()]*\)|\b[A-Z]\w*Args\b|RowList|[Ss]hapes as|[Aa]s `\w+`|arguments are those of|of scalars"
    )
    bare = [f"{name}.{node.name}" for name, node in kernels if not shape.search(ast.get_docstring(node) or "")]
    assert bare == []


@pytest.mark.parametrize("folder", sorted(path.parent.name for path in (SOURCE / "search").glob("*/__init__.py")))
def test_the_map_of_a_folder_of_search_has_all_its_modules(folder):
    described = ast.get_docstring(ast.parse((SOURCE / "search" / folder / "__init__.py").read_text(encoding="utf-8")))
    modules = {path.name for path in (SOURCE / "search" / folder).glob("*.py")} - {"__init__.py"}
    assert {name for name in re.findall(r"^(\w+\.py) ", described or "", re.MULTILINE)} == modules
