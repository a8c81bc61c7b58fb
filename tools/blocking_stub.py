"""Writes src/headwater/client/blocking.pyi, the types of the blocking door, from the door's classes: `python -m tools.blocking_stub`."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from types import ModuleType

from headwater import parts
from headwater.client import blocking_door
from headwater.client.log import AsyncLog
from headwater.wire.part import PartDefinition, load

STUB = Path(blocking_door.__file__).with_name("blocking.pyi")
TOY_STUB = Path(__file__).resolve().parents[1] / "tests" / "unit" / "parts" / "toy_blocking.pyi"
_CLIENT = "headwater.client."
_ITERATORS = ("AsyncIterator", "AsyncGenerator")
_WITH = """
def __enter__(self) -> Self: ...
def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool | None: ...
"""
_HEAD = '"""Types of the blocking door. Written by `python -m tools.blocking_stub`; a test compares the two."""\n\n'


def text(definitions: Iterable[PartDefinition] = parts.PARTS, stub: Path = STUB) -> str:
    """The stub of these parts as it should be. `stub`: where it will be, for the order of its imports."""
    doors: dict[str, type] = {part.door: AsyncLog if part.door == "log" else load(part.offers) for part in definitions}
    trees = _trees(inspect.getmodule(kind) for kind in doors.values())
    classes = [node for tree in trees.values() for node in tree.body if isinstance(node, ast.ClassDef)]
    reached = {kind.__name__ for kind in doors.values()}.union(*map(_returned, trees.values()))
    names = {node.name for node in classes if _awaits(node) and node.name in reached}
    names |= {
        node.name
        for node in classes
        if _is_named_tuple(node) and names & {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}
    }
    plain = {node.name for node in classes} - names
    lines = [_HEAD, "from __future__ import annotations\n", *_imports(trees, plain), ""]
    for tree in trees.values():
        lines += [ast.unparse(node) for node in tree.body if _is_type_variable(node)]
        lines += [
            ast.unparse(_Blocking(names, plain).visit(node)) for node in tree.body if isinstance(node, ast.ClassDef) and node.name in names
        ]
    lines.append(_door({door: f"Blocking{kind.__name__.removeprefix('Async')}" for door, kind in doors.items()}))
    return _formatted("\n".join(lines), stub)


def _trees(offering: Iterable[ModuleType | None]) -> dict[str, ast.Module]:
    """The sources of the modules that offer the door's objects, and of those whose objects with async methods are returned by them."""
    trees: dict[str, ast.Module] = {}
    waiting = [module for module in offering if module is not None]
    while waiting:
        module = waiting.pop(0)
        if module.__name__ in trees:
            continue
        tree = trees[module.__name__] = ast.parse(inspect.getsource(module))
        imported = {
            (alias.asname or alias.name): (node.module, alias.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_CLIENT)
            for alias in node.names
        }
        for name in sorted(_returned(tree) & set(imported)):
            source = import_module(imported[name][0] or "")
            kind = getattr(source, imported[name][1])
            if inspect.isclass(kind) and any(map(_is_async, vars(kind).values())):
                waiting.append(source)
    return trees


def _returned(tree: ast.Module) -> set[str]:
    """The names of the types that public methods and properties return, and that named tuples hold."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    hints: list[ast.expr | None] = []
    for node in (node for kind in classes for node in kind.body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (not node.name.startswith("_") or node.name.endswith("__")):
            hints.append(node.returns)
        elif isinstance(node, ast.AnnAssign):
            hints.append(node.annotation)
    return {word.id for hint in hints if hint is not None for word in ast.walk(hint) if isinstance(word, ast.Name)}


def _is_async(value: object) -> bool:
    return inspect.iscoroutinefunction(value) or inspect.isasyncgenfunction(value)


def _imports(trees: dict[str, ast.Module], plain: set[str]) -> list[str]:
    imports = {
        "from collections.abc import Generator",
        "from pathlib import Path",
        "from types import TracebackType",
        "from typing import Self",
        "from headwater.client.door import Headwater",
        "from headwater.core.clock import Clock",
        "from headwater.core.config import Config",
    }
    for module, tree in trees.items():
        imports |= {f"from {module} import {node.name}" for node in tree.body if isinstance(node, ast.ClassDef) and node.name in plain}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom | ast.Import) and getattr(node, "module", "") != "__future__":
                imports.add(ast.unparse(node))
    return sorted(imports)


def _is_type_variable(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "TypeVar"


def _awaits(node: ast.ClassDef) -> bool:
    return any(isinstance(statement, ast.AsyncFunctionDef) for statement in node.body)


def _is_named_tuple(node: ast.ClassDef) -> bool:
    return any(isinstance(base, ast.Name) and base.id == "NamedTuple" for base in node.bases)


class _Blocking(ast.NodeTransformer):
    """A class of the door as it is for plain code."""

    def __init__(self, names: set[str], plain: set[str]) -> None:
        """`names`: the classes that have blocking ones. `plain`: those without async methods, which stay as they are."""
        self._names, self._plain = names, plain

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        body: list[ast.stmt] = _said(node)
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                if statement.name == "__init__":
                    body += _attributes(statement)
                elif not statement.name.startswith("_") or statement.name in ("__getitem__", "__iter__", "__call__", "__aiter__"):
                    body.append(self._method(statement))
                elif statement.name == "__aenter__":
                    body += ast.parse(_WITH).body
            elif isinstance(statement, ast.AnnAssign) and (_is_named_tuple(node) or statement.value is None):
                body.append(self.visit(statement))
        bases = [base for base in node.bases if isinstance(base, ast.Name) and base.id in {*self._plain, "NamedTuple"}]
        bases += [base for base in node.bases if isinstance(base, ast.Subscript)]  # Generic
        return ast.ClassDef(name=self._named(node.name), bases=list(bases), keywords=[], body=body, decorator_list=[])

    def _method(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.FunctionDef:
        decorators = [
            decorator for decorator in node.decorator_list if isinstance(decorator, ast.Name) and decorator.id != "abstractmethod"
        ]
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
    statement = node.body[0]
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Constant) or not isinstance(statement.value.value, str):
        return []
    return [ast.Expr(ast.Constant(blocking_door.blocking_text(statement.value.value)))]


def _attributes(init: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    """Public attributes that are set to an argument."""
    kinds = {argument.arg: argument.annotation for argument in init.args.args}
    attributes: list[ast.stmt] = []
    for node in ast.walk(init):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and not node.attr.startswith("_"):
            kind = kinds.get(node.attr)
            if kind is not None:
                attributes.append(ast.AnnAssign(target=ast.Name(node.attr), annotation=kind, simple=1))
    return attributes


def _door(doors: dict[str, str]) -> str:
    attributes = "\n".join(f"    {name}: {kind}" for name, kind in doors.items())
    signature = str(inspect.signature(blocking_door.open_blocking)).replace("'", "")
    return f'''
def open_blocking{signature}:
    """{inspect.getdoc(blocking_door.open_blocking)}"""

class Blocking:
    """{inspect.getdoc(blocking_door.Blocking)}"""
    address: str | None
{attributes}
    def __init__(self, door: Headwater) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...
    def close(self) -> None:
        """{inspect.getdoc(blocking_door.Blocking.close)}"""
'''


def _formatted(source: str, stub: Path) -> str:
    for command in (["check", "--fix", "--quiet", "--select", "I,F401", "--unsafe-fixes"], ["format", "--quiet"]):
        ran = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(stub), "-"],
            input=source,
            capture_output=True,
            text=True,
            check=False,
        )
        source = ran.stdout
    return source


if __name__ == "__main__":
    from tests.unit.parts.toy import TOY

    STUB.write_text(text(), "utf-8")
    TOY_STUB.write_text(text([parts.part_named("log"), TOY], TOY_STUB), "utf-8")
