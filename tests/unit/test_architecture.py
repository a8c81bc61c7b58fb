"""What docs/explanation/architecture.md says of the code holds, and so do the rules that every file keeps."""

from __future__ import annotations

import ast
import gc
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src" / "headwater"
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
FILES = sorted(SRC.rglob("*.py"))

# -- walks ------------------------------------------------------------------------------------------------------


class Step(NamedTuple):
    path: Path
    symbol: str

    @property
    def word(self) -> str:
        return self.symbol.rpartition(".")[2]


def walks() -> Iterator[tuple[str, int, list[Step]]]:
    """The page's walks: title, limit, steps."""
    for part in re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        limit = re.search(r"^At most (\d+) files", part, re.MULTILINE)
        steps = re.findall(r"^\d+\. \[`[^`]+`\]\(([^)]+)\) `([\w.]+)`", part, re.MULTILINE)
        if limit is not None:
            yield part.partition("\n")[0], int(limit[1]), [Step((PAGE.parent / path).resolve(), symbol) for path, symbol in steps]


WALKS = {title: (limit, steps) for title, limit, steps in walks()}
LIMITS = {
    "A record from the source to the ack": 18,
    "An append over HTTP": 10,
    "A write to a region": 10,
    "A row of a queue: put and claim": 10,
    "A journal: append and read": 10,
    "A document's PUT": 10,
    "`headwater log show`": 10,
}


def test_every_walk_is_there_with_its_limit() -> None:
    assert {title: limit for title, (limit, _) in WALKS.items()} == LIMITS


@pytest.mark.parametrize("title", LIMITS)
def test_a_walk_is_short_and_every_file_is_linked_with_one_before_it(title: str) -> None:
    limit, steps = WALKS[title]
    assert 5 <= len({step.path for step in steps}) <= limit
    for number, step in enumerate(steps):
        text = step.path.read_text()
        assert re.search(rf"^\s*(?:class|(?:async )?def) {step.word}\b", text, re.MULTILINE), f"{step.path} defines no {step.symbol}"
        before = steps[:number]
        linked = [one for one in before if _mentions(one.path.read_text(), step.word) or _mentions(text, one.word)]
        assert linked or not before, f"{step.path} is linked with no file before it"


def _mentions(text: str, word: str) -> bool:
    return re.search(rf"\b{word}\b", text) is not None


# -- values that are false ----------------------------------------------------------------------------------------


def test_nothing_that_may_be_empty_is_replaced_by_an_or() -> None:
    """An empty object with `__len__` is false: `timers or Timers(clock)` makes another one, which nobody shares and nobody closes."""
    trees = {path: ast.parse(path.read_text()) for path in FILES}
    classes = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    sized = {
        one.name for one in classes if any(isinstance(own, ast.FunctionDef) and own.name in ("__len__", "__bool__") for own in one.body)
    }
    sized |= {one.name for one in classes if {ast.unparse(base).partition("[")[0] for base in one.bases} & {*sized, "dict", "list", "set"}}
    assert {"Timers", "SizedDict"} <= sized
    assert not [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or)
        for value in node.values[1:]
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in sized
    ]


# -- layers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", ["README.md", "docs/explanation/house.md"])
def test_the_pictures_show_the_layers_that_the_linter_checks(page: str) -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        [contract] = [one for one in tomllib.load(file)["tool"]["importlinter"]["contracts"] if one["name"] == "Imports go down only"]
    layers = [re.findall(r"headwater\.(\w+)", layer) for layer in contract["layers"]]
    picture = re.search(r"^ cli .*?(?=^```)", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    assert picture is not None
    assert [re.findall(r"\w+", line[: line.index("  ", 12)]) for line in picture[0].splitlines()] == layers


# -- rules of every file ------------------------------------------------------------------------------------------

LONGEST = 400  # lines of a file: one that is longer holds two things
POSITIONAL = 4  # arguments of a constructor; more are given by keyword, where a reader sees what each is
FOREIGN = {  # names of other libraries for which they have no public ones
    *("_asdict", "_replace", "_exit"),  # of the standard library, and public in spite of their names
    *("_gateway", "_ensure_initialized", "_instantiatedSession", "_active_spark_context", "_jsc", "_jvm", "_jdf"),  # of PySpark
    *("_PARTITION_EOF", "_TIMED_OUT"),  # of confluent_kafka
    *("_result", "_force_close", "_sock", "_rfile", "_stream_connection"),  # of PyMySQL and mysql-replication
    "_impl",  # of pika
}


KILLERS = {"testing/faults.py"}  # it plays a process that dies: no door is left by the door


def _nodes(path: Path) -> list[ast.AST]:
    """Every node of a file."""
    return list(ast.walk(ast.parse(path.read_text())))


def _with(word: str, folder: Path) -> Iterator[Path]:
    """The files below a folder in which a word is written; the others need not be parsed."""
    return (path for path in sorted(folder.rglob("*.py")) if word in path.read_text())


def _own(path: Path) -> str:
    return str(path.relative_to(SRC))


class Breaches(NamedTuple):
    """Places that break a rule."""

    constructors: list[str]
    private: list[str]


@cache
def _breaches() -> Breaches:
    """Of all files, each parsed once and not kept: the nodes of the whole source are more than a million."""
    found = Breaches([], [])
    gc.disable()  # nodes are in no cycles: to search the whole heap for some, again and again, takes longer than to parse
    try:
        for path in FILES:
            nodes = _nodes(path)
            found.constructors.extend(_constructors(path, nodes))
            if _own(path) not in KILLERS:
                found.private.extend(_private(path, nodes))
    finally:
        gc.enable()
    return found


def _constructors(path: Path, nodes: list[ast.AST]) -> Iterator[str]:
    for kind in (one for one in nodes if isinstance(one, ast.ClassDef)):
        for made in kind.body:
            if isinstance(made, ast.FunctionDef) and made.name == "__init__":
                given = len(made.args.posonlyargs) + len(made.args.args) - 1
                if given > POSITIONAL:
                    yield f"{_own(path)}: {kind.name}"


def _private(path: Path, nodes: list[ast.AST]) -> Iterator[str]:
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    known = FOREIGN | {node.attr for node in attributes if _of_self(node)}
    known |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    for node in attributes:
        if re.match(r"_[^_]", node.attr) and not _of_self(node) and node.attr not in known:
            yield f"{_own(path)}:{node.lineno}: {ast.unparse(node)}"


def test_no_file_is_longer_than_one_thing_needs() -> None:
    lines = {_own(path): path.read_text().count("\n") for path in FILES}
    assert {path: count for path, count in lines.items() if count > LONGEST} == {}


def test_constructors_take_many_arguments_by_keyword() -> None:
    assert _breaches().constructors == []


def test_nobody_reaches_for_what_is_private_to_another_file() -> None:
    """Classes of one file may know each other; those of two files talk by public names."""
    assert _breaches().private == []


def _of_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def test_pipelines_adaptors_and_spark_hide_no_mistake_behind_an_attribute_error() -> None:
    found = [
        f"{_own(path)}:{node.lineno}"
        for folder in ("pipeline", "adaptors", "spark")
        for path in _with("AttributeError", SRC / folder)
        for node in _nodes(path)
        if isinstance(node, ast.ExceptHandler) and node.type is not None and "AttributeError" in ast.unparse(node.type)
    ]
    assert found == []


def test_sqlite_is_used_through_one_library() -> None:
    """A process drops all its POSIX locks on a file when it closes it once. A second library closes what the first has locked."""
    found = [
        f"{path.relative_to(SRC.parent)}:{node.lineno}"
        for path in _with("sqlite3", SRC.parent)
        for node in _nodes(path)
        if {"sqlite3", "_sqlite3"} & {name.partition(".")[0] for name in _imported(node)}
    ]
    assert found == []


def _imported(node: ast.AST) -> list[str]:
    """The modules that a statement imports, and the one that a call names (`import_module("sqlite3")`)."""
    if isinstance(node, ast.Import):
        return [one.name for one in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    if isinstance(node, ast.Call):
        return [one.value for one in node.args[:1] if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return []
