"""Named statements of a part, kept in one file beside the code that runs them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

_NAME = re.compile(r"^-- name: *([a-z0-9_]+) *$", re.MULTILINE)


def read_statements(path: Path) -> Mapping[str, str]:
    """The statements of a file by their names. A line `-- name: pointer` stands before each.

    Errors: `ValueError` for a name that stands there twice, a name without a statement, and a statement without a name.
    """
    before, *named = _NAME.split(path.read_text("utf-8"))
    if _bare(before):
        raise ValueError(f"{path} has a statement before its first name.")
    statements: dict[str, str] = {}
    for name, text in zip(named[::2], named[1::2], strict=True):
        if name in statements:
            raise ValueError(f"{path} has two statements of the name {name}.")
        if not _bare(text):
            raise ValueError(f"{path} has no statement of the name {name}.")
        statements[name] = _bare(text)
    return MappingProxyType(statements)


def _bare(text: str) -> str:
    """The statement without comments and without the semicolon at its end."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("--")]
    return "\n".join(lines).strip().removesuffix(";").rstrip()
