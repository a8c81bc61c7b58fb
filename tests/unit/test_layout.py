"""Unit tests mirror the source: what `src/headwater/a/b.py` does is tested in `tests/unit/a/test_b.py`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.unit import layout_gaps

UNIT = Path(__file__).parent
SRC = UNIT.parents[1] / "src" / "headwater"

# Modules whose tests stand elsewhere, beside those of `layout_gaps`: both lists only get shorter.
MODULES = {
    *("log/address", "log/arrow", "log/marker", "log/opening", "log/operations"),
    *("cluster/kafka", "store/cassandra/schema_lock", "log/kafka/partition", "log/guard", "log/answers", "log/content", "log/search"),
    *("log/kafka/arrivals", "log/kafka/check", "log/kafka/log", "log/kafka/readers", "log/kafka/writer"),
    *("pipeline/adaptors", "pipeline/loading", "pipeline/operations", "pipeline/transform"),
    *("pipeline/transforms/batched", "pipeline/transforms/columns", "pipeline/transforms/conditions", "pipeline/transforms/opfilter"),
    *("pipeline/transforms/pretty", "pipeline/transforms/remap", "pipeline/transforms/sql_plan"),
    *("parts", "spark/tasks", "spark/training"),
    *(f"{package}/{module}" for package, modules in layout_gaps.MODULES.items() for module in modules.split()),
}


NO_NOUNS = {"one", "found", "said", "told", "it"}  # of a local, they say neither what it is nor its type


def without_tests() -> set[str]:
    """The modules that have no file of unit tests of their own."""
    modules = [path.relative_to(SRC) for path in SRC.rglob("*.py") if not path.name.startswith("__")]
    return {str(one.with_suffix("")) for one in modules if not (UNIT / one.parent / f"test_{one.name}").exists()}


def test_every_module_has_its_unit_tests() -> None:
    missing = without_tests() - MODULES
    assert not missing, f"Without unit tests: {', '.join(sorted(missing))}"


def test_the_list_of_modules_without_tests_only_gets_shorter() -> None:
    assert without_tests() >= MODULES, f"Take from the list: {', '.join(sorted(MODULES - without_tests()))}"
    assert layout_gaps.REASONS.keys() == layout_gaps.MODULES.keys()
    rooms = ("pipeline/running/", "pipeline/offsets/", "pipeline/operating/", "log/embedded/")
    assert not [one for one in without_tests() if one.startswith(rooms)]


def test_locals_carry_the_noun_of_what_they_hold() -> None:
    unnamed = [f"{path.relative_to(SRC)}:{line} {name}" for path in SRC.rglob("*.py") for line, name in _locals(path) if name in NO_NOUNS]
    assert not unnamed, "\n".join(unnamed)


def _locals(path: Path) -> Iterator[tuple[int, str]]:
    """The names that functions of a module bind, parameters of private ones included."""
    for scope in ast.walk(ast.parse(path.read_text())):
        if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.comprehension):
            for node in ast.walk(scope):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.lineno, node.id
        if isinstance(scope, ast.Lambda) or (isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef) and scope.name.startswith("_")):
            yield from ((parameter.lineno, parameter.arg) for parameter in scope.args.args + scope.args.kwonlyargs)
