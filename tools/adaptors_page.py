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
    descriptions = [describe(name) for name in adaptors.names() if name in adaptors.built_in()]
    lines = ["| adaptor | source | sink | what it is |", "|---|---|---|---|"]
    for description in descriptions:
        source = " + ".join(word for word, can in (("copy", description["copies"]), ("changes", description["follows"])) if can) or "–"
        lines.append(
            f"| [`{description['name']}`](#{description['name']}) | {source} | "
            f"{description['delivery'] or '–'} | {_cell(description['summary'])} |"
        )
    return HEAD + "\n".join(lines) + "\n\n" + "\n".join(map(_section, descriptions))


def _section(description: dict[str, Any]) -> str:
    parts = [f"## `{description['name']}`\n", f"{description['summary']}\n", f"Namespace: {description['namespace']}\n"]
    if description["source"]:
        parts.append(f"As a source: {description['source']}\n")
    if description["sink"]:
        parts.append(f"As a sink ({description['delivery']}): {description['sink']}\n")
    parts.append("| option | default | meaning |\n|---|---|---|")
    parts += [f"| `{option['name']}` | {_default(option['default'])} | {_cell(option['meaning'])} |" for option in description["options"]]
    parts.append(f"\n```python\n{description['sample']}\n```\n")
    return "\n".join(parts)


def _default(shown: str | None) -> str:
    return "required" if shown is None else "none" if shown == "None" else f"`{_cell(shown)}`"


def _cell(content: str) -> str:
    return content.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(text(), "utf-8")
