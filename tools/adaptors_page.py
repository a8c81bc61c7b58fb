"""Writes docs/reference/adaptors.md from what the adaptors say of themselves: `python -m tools.adaptors_page`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headwater.pipeline import adaptors
from headwater.pipeline.operating.about import describe

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "adaptors.md"
HEAD = (
    "# Adaptors\n\nWritten by `python -m tools.adaptors_page` from what `headwater pipeline about` tells; a test compares the two. "
    "How a pipeline is put together is told in [pipelines](pipelines.md).\n\n"
)


def text() -> str:
    """The page as it should be."""
    every = [describe(name) for name in adaptors.names() if name in adaptors.built_in()]
    lines = ["| adaptor | source | sink | what it is |", "|---|---|---|---|"]
    for one in every:
        source = " + ".join(word for word, can in (("copy", one["copies"]), ("changes", one["follows"])) if can) or "–"
        lines.append(f"| [`{one['name']}`](#{one['name']}) | {source} | {one['delivery'] or '–'} | {_cell(one['summary'])} |")
    return HEAD + "\n".join(lines) + "\n\n" + "\n".join(map(_section, every))


def _section(one: dict[str, Any]) -> str:
    parts = [f"## `{one['name']}`\n", f"{one['summary']}\n", f"Namespace: {one['namespace']}\n"]
    if one["source"]:
        parts.append(f"As a source: {one['source']}\n")
    if one["sink"]:
        parts.append(f"As a sink ({one['delivery']}): {one['sink']}\n")
    parts.append("| option | default | meaning |\n|---|---|---|")
    parts += [f"| `{option['name']}` | {_default(option['default'])} | {_cell(option['meaning'])} |" for option in one["options"]]
    parts.append(f"\n```python\n{one['sample']}\n```\n")
    return "\n".join(parts)


def _default(shown: str | None) -> str:
    return "required" if shown is None else "none" if shown == "None" else f"`{_cell(shown)}`"


def _cell(said: str) -> str:
    return said.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(text(), "utf-8")
