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
    by_name = {name: class_of(name) for name in sorted(adaptors.built_in())}
    classes = sorted({(adaptor_class.__module__, adaptor_class.__name__) for adaptor_class in by_name.values()})
    imports = [f"from {module} import {name}" for module, name in classes]
    imports += ["from headwater.pipeline.adaptor import Adaptor", "from headwater.pipeline.env import Env"]
    functions = [_function(name) for name in sorted(by_name, key=lambda name: (name != by_name[name].kind, name))]
    return HEAD + "\n".join(imports) + "\n" + TAIL + "\n".join(functions)


def _function(name: str) -> str:
    adaptor_class = class_of(name)
    if name != adaptor_class.kind:
        return f"{name} = {adaptor_class.kind}\n"
    lines = [f"def {name}("]
    for number, option in enumerate(options_of(adaptor_class).values()):
        default = "" if option.default is inspect.Parameter.empty else f" = {_written(option.default)}"
        lines += [f"    {option.name}: {spelled(option.accepts)}{default},", *(["    *,"] if number == 0 else [])]
    lines += [f") -> {adaptor_class.__name__}:", f'    """{adaptor_class.about.summary}', ""]
    for option in options_of(adaptor_class).values():
        lines += wrap(f"`{option.name}`: {option.means.text}", 136, initial_indent="    ", subsequent_indent=" " * 8)
    return "\n".join([*lines, '    """', ""])


def _written(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


if __name__ == "__main__":
    STUB.write_text(text(), "utf-8")
