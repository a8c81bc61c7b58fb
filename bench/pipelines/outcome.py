"""Whether what arrived is what was sent: every row and every value of it. Looked at after each round, outside of its time."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet

from headwater.core.errors import Differs


def of_lines(paths: Iterable[Path], expected: pa.Table) -> None:
    """Errors: `Differs` where files of JSON lines do not hold these documents, each once, in whatever order."""
    parse = pa.json.ParseOptions(explicit_schema=expected.schema)
    _same((pa.json.read_json(path, parse_options=parse) for path in paths if path.stat().st_size), expected)


def of_parquet(paths: Iterable[Path], expected: pa.Table) -> None:
    """The same of Parquet. Columns that a peer adds for itself do not count."""
    _same((pa.parquet.read_table(path) for path in paths), expected)


def _same(tables: Iterable[pa.Table], expected: pa.Table) -> None:
    # A column too many is one that a transform has not taken away: peers mark their own columns.
    plain_tables = [table.select([name for name in table.column_names if not name.startswith("_dlt_")]) for table in tables]
    rows = sum(table.num_rows for table in plain_tables)
    if rows != expected.num_rows:
        raise Differs(f"{rows} documents were written, not {expected.num_rows}.", hint="See the sink's folder.")
    written = pa.concat_tables([_plain(table, expected) for table in plain_tables]).sort_by("_id")
    for name in expected.column_names:
        if not written[name].equals(expected[name]):
            raise Differs(f"What was written differs from what was sent in {name}.", hint="See the sink's folder.")


def _plain(table: pa.Table, expected: pa.Table) -> pa.Table:
    if set(table.column_names) != set(expected.column_names):
        raise Differs(
            f"{', '.join(table.column_names)} were written, not {', '.join(expected.column_names)}.", hint="See the sink's folder."
        )
    return table.select(expected.column_names).cast(expected.schema)
