"""In how many files of the source each operation of pipelines is written. A fifth is one that somebody forgets."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import headwater
from headwater import parts

SRC = Path(headwater.__file__).parent
MOST = 4
"""The table, the method that does it, the door's method, the command."""
TABLE = "headwater.pipeline.operations"
METHODS = ("pipeline/operating/", "client/pipelines.py", "cli/pipeline")  # where a function of the name is the operation's
WORDS = ("pipeline/operations.py", "pipeline/operating/", "pipeline/running/", "pipeline/offsets/", *METHODS[1:], "server/", "wire/")
COLUMNS = ("column", "Column", "get")  # calls whose first word is the name of a column
MEANS_ANOTHER = {
    ("audit", "pipeline/offsets/state.py"): "The kind of the control record that holds an entry of the audit.",
    ("dead", "pipeline/offsets/state.py"): "The kind of the control record that holds a message which was put aside.",
    ("edit", "pipeline/offsets/state.py"): "The kind of the control record that holds a corrected copy.",
    ("compact", "pipeline/offsets/ownership.py"): "The operation `compact` of the log, which is refused on a pipeline's topic.",
    ("delete", "pipeline/running/run_record.py"): "A run that finds a sink anew asks the audit whether an operator has deleted it.",
    ("list", "cli/pipeline_changing.py"): "The verb of `offset NAME list`, which is the operation `offsets`.",
    ("list", "cli/pipeline_sending.py"): "The verb of `dead NAME list`, which is the operation `dead`.",
    ("messages", "pipeline/operating/verification.py"): "A function inside of the comparison, which reads the log.",
    ("replay", "pipeline/operating/manual_delivery.py"): "Writes the entry of the audit under the sink's lock, with what was refused.",
    ("replay", "pipeline/operating/changes.py"): "Reads the audit: a message that was sent again is one that the sink should hold.",
    ("step", "pipeline/operating/manual_delivery.py"): "Writes the entry of the audit under the sink's lock.",
}
"""Files that hold the word and are no place of the operation, or are one that cannot be one of the four; why."""


def places(name: str) -> set[str]:
    return {path for path, words in written().items() if name in words}


@cache
def written() -> dict[str, set[str]]:
    """The words that may name an operation, by file."""
    found = {}
    for path in SRC.rglob("*.py"):
        text, where = path.read_text(), str(path.relative_to(SRC))
        if "headwater.pipeline" not in text and not where.startswith((*WORDS, *METHODS)):
            continue
        tree = ast.parse(text)
        words = set(constants(tree, where))
        if where.startswith(METHODS):
            words |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        if where.startswith(WORDS):
            words |= set(literals(tree))
        found[where] = words
    return found


def constants(tree: ast.Module, where: str) -> Iterator[str]:
    """The operations whose entry of the table is read here, or made."""
    aliases = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == TABLE:
            yield from (imported.name.lower() for imported in node.names if imported.name.isupper())
        elif isinstance(node, ast.ImportFrom) and f"{node.module}." == TABLE.removesuffix("operations"):
            aliases |= {imported.asname or imported.name for imported in node.names if imported.name == "operations"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            yield node.attr.lower()
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and where == "pipeline/operations.py":
            yield node.id.lower()


def literals(tree: ast.Module) -> Iterator[str]:
    """Words in quotes that choose something: compared, matched, listed in a Literal, or given to a call first."""
    for node in ast.walk(tree):
        some: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            some = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            some = [node.value]
        elif isinstance(node, ast.Subscript) and getattr(node.value, "id", "") == "Literal":
            some = [node.slice]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) not in COLUMNS:
            some = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg == "name")]
        for expression in some:
            listed = expression.elts if isinstance(expression, ast.Tuple) else [expression]
            yield from (word.value for word in listed if isinstance(word, ast.Constant) and isinstance(word.value, str))


@pytest.mark.parametrize("name", [operation.name for operation in parts.part_named("pipeline").operations])
def test_an_operation_of_pipelines_stands_in_four_files_at_most(name: str) -> None:
    found = sorted(path for path in places(name) if (name, path) not in MEANS_ANOTHER)
    assert len(found) <= MOST, found


def test_what_is_excepted_is_there() -> None:
    assert [(name, path) for name, path in MEANS_ANOTHER if path not in places(name)] == []
