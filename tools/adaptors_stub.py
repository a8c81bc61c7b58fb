"""Writes src/headwater/pipeline/adaptors.pyi from the options that the adaptors declare: `python -m tools.adaptors_stub`."""

from __future__ import annotations

import inspect
from pathlib import Path
from textwrap import wrap

from headwater.pipeline import adaptors
from headwater.pipeline.operating.about import class_of
from headwater.pipeline.options import options_of, spelled

STUB = Path(__file__).resolve().parents[1] / "src" / "headwater" / "pipeline" / "adaptors.pyi"
HEAD = '''"""The adaptors of headwater itself, for editors and mypy; those of other packages are found when they are asked for.

Written by `python -m tools.adaptors_stub`; a test compares it with what the adaptors declare.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

'''
TAIL = """
GROUP: str
OTHERWISE: dict[str, str]

def names() -> list[str]: ...
def built_in() -> dict[str, str]: ...
def find(name: str) -> Callable[..., Adaptor]: ...
"""


def text() -> str:
    """The stub as it should be."""
    made = {name: class_of(name) for name in sorted(adaptors.built_in())}
    classes = sorted({(one.__module__, one.__name__) for one in made.values()})
    imports = [f"from {module} import {name}" for module, name in classes]
    imports += ["from headwater.pipeline.adaptor import Adaptor", "from headwater.pipeline.env import Env"]
    functions = [_function(name) for name in sorted(made, key=lambda name: (name != made[name].kind, name))]
    return HEAD + "\n".join(imports) + "\n" + TAIL + "\n".join(functions)


def _function(name: str) -> str:
    made = class_of(name)
    if name != made.kind:
        return f"{name} = {made.kind}\n"
    lines = [f"def {name}("]
    for number, one in enumerate(options_of(made).values()):
        default = "" if one.default is inspect.Parameter.empty else f" = {_written(one.default)}"
        lines += [f"    {one.name}: {spelled(one.accepts)}{default},", *(["    *,"] if number == 0 else [])]
    lines += [f") -> {made.__name__}:", f'    """{made.about.summary}', ""]
    for one in options_of(made).values():
        lines += wrap(f"`{one.name}`: {one.means.text}", 136, initial_indent="    ", subsequent_indent=" " * 8)
    return "\n".join([*lines, '    """', ""])


def _written(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


if __name__ == "__main__":
    STUB.write_text(text(), "utf-8")
