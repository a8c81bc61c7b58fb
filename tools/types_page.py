"""Writes docs/reference/types.md from what sources and sinks make of a value of every type: `python -m tools.types_page`.

Needs the servers of `tools.services`: postgres, mariadb and mongodb. Tests compare each table with the page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tools import type_sinks
from tools.type_table import (
    EXTENDED,
    FLOATS,
    JSON,
    TypeRow,
    csv_rows,
    json_rows,
    mariadb_rows,
    mongodb_rows,
    parquet_rows,
    postgres_rows,
    sqlite_rows,
)

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "types.md"
HEAD = (
    "# Types\n\nWritten by `python -m tools.types_page`, which reads and writes every value of these tables with the adaptors; tests "
    "compare.\n\nOne rule for numbers holds from every source to every sink:\n\n"
    "- An integer is `int`, of any length. A small one that MongoDB has as a long stays a long there.\n"
    "- A number with a point or an exponent that comes from text (CSV; JSON in files, objects, topics, queues and indices) is a `Decimal` "
    'with its digits, in every cell. With `decimals="float"` at the source it is a `float` in every cell.\n'
    "- A float of a database or of Parquet stays a `float`, and a decimal a `Decimal` with its scale, through the log, a replay and an "
    "edit: `1.0` is not `1`, and `-0.0` keeps its sign; MariaDB tells it as `0`, and SQLite stores `0.0`.\n\n"
    'In the log a float is extended JSON, `{"$numberDouble": "1.25"}`, and so is a decimal without a point, `{"$numberDecimal": "5"}`; '
    "JSON text is stored byte for byte. Messages have Python's own numbers. Sinks of JSON (files, S3, Kafka, RabbitMQ, HTTP, OpenSearch, "
    "topics, standard output) write plain numbers; JSON has none for NaN and the infinities, which stay extended JSON. What JSON has no "
    "type for, such as dates, is extended JSON in messages, too.\n\n"
    "Behind each value is what sinks hold that make their own tables: JSON lines, SQLite, Parquet and PostgreSQL (`create=True`), with the "
    "type of the column that was made for it. `verify` calls all of them equal to the log, but for those that say `differs`; `–` is null, "
    "for which no column is made; what is refused is a poison record.\n\n"
    "Ids that are objects: PostgreSQL (jsonb) and OpenSearch take two for one document that differ in the order of their fields, "
    "PostgreSQL also two with 1 and 1.0 in them; SQLite and MongoDB keep them apart. Their messages stay in order everywhere.\n\n"
)


def table(rows: Sequence[TypeRow], postgres: str | None = None) -> str:
    """The rows as Markdown. `postgres`: the address of the server that values are written to; None: without that column."""
    names = [*type_sinks.LOCAL, *(type_sinks.SERVED if postgres is not None else ())]
    lines = [
        "| " + " | ".join(["type", "value", "in the log", "in a message", *(f"in {name}" for name in names)]) + " |",
        "|" + "---|" * (4 + len(names)),
    ]
    for row, held in zip(rows, type_sinks.columns([row.log for row in rows], postgres), strict=True):
        cells = [row.given, row.log, row.message, *held]
        lines.append("| " + " | ".join([_escaped(row.type), *map(_cell, cells)]) + " |")
    return "\n".join(lines) + "\n"


def section(name: str, *, served: bool = True) -> str:
    """The table under a heading of the page, as it is written there; without the columns that need a server, unless `served`."""
    text = PAGE.read_text("utf-8").split(f"## {name}\n\n", 1)[1].split("\n## ", 1)[0].rstrip("\n") + "\n"
    return text if served else "".join(line[: line.rindex("|", 0, -1)] + "|\n" for line in text.splitlines())


LOCAL: dict[str, Callable[[], list[TypeRow]]] = {
    "CSV": csv_rows,
    "JSON": lambda: [*json_rows(JSON), *json_rows(EXTENDED)],
    'JSON with `decimals="float"`': lambda: json_rows(FLOATS, decimals="float"),
    "Parquet": parquet_rows,
    "SQLite": sqlite_rows,
}
SERVERS: dict[str, tuple[str, Callable[[str], list[TypeRow]]]] = {
    "PostgreSQL": ("postgres", postgres_rows),
    "MariaDB": ("mariadb", mariadb_rows),
    "MongoDB": ("mongodb", mongodb_rows),
}


def text() -> str:
    """The page as it should be."""
    from tools.services import up

    running = up(*(kind for kind, _ in SERVERS.values()))
    tables = {name: rows() for name, rows in LOCAL.items()}
    tables |= {name: rows(getattr(running, kind)) for name, (kind, rows) in SERVERS.items()}
    return HEAD + "\n".join(f"## {name}\n\n{table(rows, running.postgres)}" for name, rows in tables.items())


def _cell(text: str) -> str:
    """A value as code; the words that are no values as they are."""
    value, verify, _ = text.partition(type_sinks.DIFFERS)
    shown = value if value in ("", type_sinks.REFUSED, type_sinks.NOTHING) else f"`{_escaped(value)}`"
    return shown + verify


def _escaped(content: str) -> str:
    return content.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(text(), "utf-8")
