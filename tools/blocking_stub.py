"""Writes src/headwater/client/blocking.pyi, the types of the blocking door, from the door's classes: `python -m tools.blocking_stub`."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from headwater import parts
from headwater.client import blocking
from headwater.client.log import AsyncLog
from headwater.wire.part import load

STUB = Path(blocking.__file__).with_suffix(".pyi")
_ALSO = (
    "headwater.client.collection_indexes",
    "headwater.client.collection_schema",
    "headwater.client.document_resource",
    "headwater.client.collection_views",
    "headwater.client.index_templates",
    "headwater.client.journal",
    "headwater.client.journal_snapshots",
    "headwater.client.named_projection",
    "headwater.client.queue_claim",
    "headwater.client.queue_result",
    "headwater.client.queue_worker",
)  # modules whose classes the door's objects return
_ITERATORS = ("AsyncIterator", "AsyncGenerator")
_WITH = """
def __enter__(self) -> Self: ...
def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool | None: ...
"""
_HEAD = '"""Types of the blocking door. Written by `python -m tools.blocking_stub`; a test compares the two."""\n\n'


def text() -> str:
    """The stub as it should be."""
    doors: dict[str, type] = {part.door: AsyncLog if part.door == "log" else load(part.offers) for part in parts.PARTS}
    modules = {**{inspect.getmodule(kind): None for kind in doors.values()}, **{import_module(name): None for name in _ALSO}}
    trees = {module: ast.parse(inspect.getsource(module)) for module in modules if module is not None}
    classes = [node for tree in trees.values() for node in tree.body if isinstance(node, ast.ClassDef)]
    names = {node.name for node in classes if _awaits(node)}
    names |= {
        node.name for node in classes if _is_named_tuple(node) and names & {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    }
    plain = {node.name for node in classes} - names
    lines = [_HEAD, "from __future__ import annotations\n", *_imports(trees.values()), ""]
    for tree in trees.values():
        lines += [
            ast.unparse(_Blocking(names, plain).visit(node)) for node in tree.body if isinstance(node, ast.ClassDef) and node.name in names
        ]
    lines.append(_door({door: f"Blocking{kind.__name__.removeprefix('Async')}" for door, kind in doors.items()}))
    return _formatted("\n".join(lines))


def _imports(trees: Any) -> list[str]:
    found = {
        "from collections.abc import Generator",
        "from pathlib import Path",
        "from types import TracebackType",
        "from typing import Self",
        "from headwater.client.door import Headwater",
        "from headwater.core.clock import Clock",
        "from headwater.core.config import Config",
    }
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom | ast.Import) and getattr(node, "module", "") != "__future__":
                found.add(ast.unparse(node))
    return sorted(found)


def _awaits(node: ast.ClassDef) -> bool:
    return any(isinstance(one, ast.AsyncFunctionDef) for one in node.body)


def _is_named_tuple(node: ast.ClassDef) -> bool:
    return any(isinstance(base, ast.Name) and base.id == "NamedTuple" for base in node.bases)


class _Blocking(ast.NodeTransformer):
    """A class of the door as it is for plain code."""

    def __init__(self, names: set[str], plain: set[str]) -> None:
        """`names`: the classes that have blocking ones. `plain`: those without async methods, which stay as they are."""
        self._names, self._plain = names, plain

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        body: list[ast.stmt] = _said(node)
        for one in node.body:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                if one.name == "__init__":
                    body += _attributes(one)
                elif not one.name.startswith("_") or one.name in ("__getitem__", "__iter__", "__call__", "__aiter__"):
                    body.append(self._method(one))
                elif one.name == "__aenter__":
                    body += ast.parse(_WITH).body
            elif isinstance(one, ast.AnnAssign) and _is_named_tuple(node):
                body.append(self.visit(one))
        bases = [base for base in node.bases if isinstance(base, ast.Name) and base.id in {*self._plain, "NamedTuple"}]
        return ast.ClassDef(name=self._named(node.name), bases=list(bases), keywords=[], body=body, decorator_list=[])

    def _method(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.FunctionDef:
        decorators = [one for one in node.decorator_list if isinstance(one, ast.Name) and one.id != "abstractmethod"]
        body: list[ast.stmt] = _said(node) or [ast.Expr(ast.Constant(...))]
        return ast.FunctionDef(
            name={"aclose": "close", "__aiter__": "__iter__"}.get(node.name, node.name),
            args=self.visit(node.args),
            body=body,
            decorator_list=list(decorators),
            returns=None if node.returns is None else self.visit(node.returns),
            lineno=0,
        )

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(self._named(node.id))

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id in _ITERATORS:
            return ast.Subscript(ast.Name("Generator"), self.visit(node.slice))
        return self.generic_visit(node)

    def _named(self, name: str) -> str:
        return f"Blocking{name.removeprefix('Async')}" if name in self._names else name


def _said(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    """The docstring, for plain code; nothing where there is none."""
    found = node.body[0]
    if not isinstance(found, ast.Expr) or not isinstance(found.value, ast.Constant) or not isinstance(found.value.value, str):
        return []
    return [ast.Expr(ast.Constant(blocking.blocking_text(found.value.value)))]


def _attributes(init: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    """Public attributes that are set to an argument."""
    kinds = {one.arg: one.annotation for one in init.args.args}
    found: list[ast.stmt] = []
    for node in ast.walk(init):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and not node.attr.startswith("_"):
            kind = kinds.get(node.attr)
            if kind is not None:
                found.append(ast.AnnAssign(target=ast.Name(node.attr), annotation=kind, simple=1))
    return found


def _door(doors: dict[str, str]) -> str:
    attributes = "\n".join(f"    {name}: {kind}" for name, kind in doors.items())
    signature = str(inspect.signature(blocking.open_blocking)).replace("'", "")
    return f'''
def open_blocking{signature}:
    """{inspect.getdoc(blocking.open_blocking)}"""

class Blocking:
    """{inspect.getdoc(blocking.Blocking)}"""
    address: str | None
{attributes}
    def __init__(self, door: Headwater) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...
    def close(self) -> None:
        """{inspect.getdoc(blocking.Blocking.close)}"""
'''


def _formatted(source: str) -> str:
    for command in (["check", "--fix", "--quiet", "--select", "I,F401", "--unsafe-fixes"], ["format", "--quiet"]):
        ran = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(STUB), "-"],
            input=source,
            capture_output=True,
            text=True,
            check=False,
        )
        source = ran.stdout
    return source


if __name__ == "__main__":
    STUB.write_text(text(), "utf-8")
