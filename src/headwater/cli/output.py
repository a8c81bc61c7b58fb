"""The output of commands: tables for people, JSON for programs. Escapes control characters in stored data."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import typer

from headwater.core.errors import BadInput


class Column(NamedTuple):
    """A column of a table; numbers are right-aligned."""

    name: str
    right: bool = False


def print_json(value: Any) -> None:
    """One JSON document, readable."""
    import msgspec

    sys.stdout.write(msgspec.json.format(_encoded(value), indent=2).decode() + "\n")


def print_json_line(value: Any, *, err: bool = False) -> None:
    """One JSON object on a line of its own; `err`: on stderr."""
    (sys.stderr if err else sys.stdout).write(_encoded(value).decode() + "\n")


def _encoded(value: Any) -> bytes:
    """JSON. A decimal stays a number: as text it would look like a wrong type in the data."""
    import msgspec

    return msgspec.json.Encoder(decimal_format="number").encode(value)


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """Print a table that fits the terminal; into a file or a pipe, plain columns as wide as their content."""
    cells = [[visible(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        widths = [max(len(line[at]) for line in ([c.name for c in columns], *cells)) for at in range(len(columns))]
        for line in ([column.name for column in columns], *cells):
            placed = [cell.rjust(width) if c.right else cell.ljust(width) for cell, width, c in zip(line, widths, columns, strict=True)]
            sys.stdout.write("  ".join(placed).rstrip() + "\n")
        return
    from rich import box
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=sys.stdout, highlight=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    least = [cell_len(column.name) for column in columns]
    wide = [max(map(cell_len, column), default=0) for column in zip(*cells, strict=True)] or least
    widths = _fitted(least, list(map(max, least, wide)), console.width - 2 * (len(columns) - 1))
    for column, width in zip(columns, widths, strict=True):
        table.add_column(column.name, justify="right" if column.right else "left", overflow="fold", width=width)
    for line in cells:
        table.add_row(*(Text(cell) for cell in line))
    console.print(table)


def _fitted(least: list[int], widths: list[int], room: int) -> list[int]:
    """Widths of columns that fit together: the widest one gives way, so that names, numbers and times stay whole as long as possible."""
    widths = [min(width, max(room, 1)) for width in widths]
    while sum(widths) > room and (wide := [at for at in range(len(widths)) if widths[at] > least[at]]):
        widths[max(wide, key=lambda at: widths[at])] -= 1
    while sum(widths) > room and max(widths) > 1:  # a very narrow terminal: names are folded, too
        widths[widths.index(max(widths))] -= 1
    return widths


def visible(text: str) -> str:
    """The text with control characters (escape, bell, line ends, direction marks) escaped: a record must not control the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in text)


def count(number: int) -> str:
    """12345678 as 12,345,678."""
    return f"{number:,}"


def counted(number: int, what: str) -> str:
    """12345 records, or 1 record."""
    return f"{count(number)} {what}{'' if number == 1 else 's'}"


def agreed(question: str, *, yes: bool) -> bool:
    """Whether the user agrees to a change that cannot be undone. Errors: `BadInput` without a terminal."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise BadInput(f"{question} Nobody can be asked here.", hint="Add --yes to do it, or --dry-run to see what it would do.")
    return typer.confirm(question)
