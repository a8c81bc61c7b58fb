"""Moves data with dlt. Runs in the peers' environment and imports nothing of headwater's: a request per line comes in, an answer goes out.

A request is {"move", "source", "out", "work", "table"}; the answer {"seconds"}, of the move alone: what it imports is imported before.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ |= {
    "RUNTIME__DLTHUB_TELEMETRY": "false",
    "RUNTIME__LOG_LEVEL": "ERROR",
    "DATA_WRITER__DISABLE_COMPRESSION": "true",  # JSON lines would be gzipped, which nobody else does here
}

import connectorx  # noqa: F401 - imported at its first use otherwise, inside the time
import dlt
import psycopg2  # noqa: F401
import pyarrow as pa
import pyarrow.json
from dlt.destinations import filesystem as folder
from dlt.sources.filesystem import filesystem, read_jsonl
from dlt.sources.sql_database import sql_table

NAME = "orders"
ROWS = 50_000  # at once; dlt's own figure for tables
BLOCK = 8 << 20

Asked = dict[str, Any]


def rows(asked: Asked) -> Any:
    """JSON lines as dlt's users read them: row by row."""
    path = Path(asked["source"])
    return (filesystem(bucket_url=str(path.parent), file_glob=path.name) | read_jsonl(chunksize=10_000)).with_name(NAME)


def columns(asked: Asked) -> Any:
    """JSON lines parsed by Arrow: the tables go through dlt as they are."""

    @dlt.resource(name=NAME)
    def batches() -> Iterator[pa.RecordBatch]:
        with pa.json.open_json(asked["source"], read_options=pa.json.ReadOptions(block_size=BLOCK)) as reader:
            yield from reader

    return batches()


def through_sqlalchemy(asked: Asked) -> Any:
    """A table read through SQLAlchemy and made into Arrow's."""
    return _table(asked, "pyarrow", {})


def through_connectorx(asked: Asked) -> Any:
    """A table read by ConnectorX, which makes Arrow's tables in Rust, as a stream: memory does not grow with the table."""
    return _table(asked, "connectorx", {"return_type": "arrow_stream", "batch_size": ROWS})


def _table(asked: Asked, backend: Any, options: dict[str, Any]) -> Any:
    schema, name = asked["table"].split(".")
    uri = asked["source"].replace("postgresql://", "postgresql+psycopg2://")
    return sql_table(credentials=uri, schema=schema, table=name, backend=backend, chunk_size=ROWS, backend_kwargs=options)


MOVES: dict[str, tuple[Callable[[Asked], Any], Any]] = {
    "jsonl → jsonl": (rows, "jsonl"),
    "jsonl → parquet": (columns, "parquet"),
    "pyarrow": (through_sqlalchemy, "parquet"),
    "connectorx": (through_connectorx, "parquet"),
}


def move(asked: Asked) -> float:
    """Extract, normalize, load; as one call of dlt's. Its seconds."""
    source, written = MOVES[asked["move"]]
    begun = time.perf_counter()
    pipeline = dlt.pipeline("bench", pipelines_dir=asked["work"], destination=folder(bucket_url=asked["out"]), dataset_name="out")
    pipeline.run(source(asked), loader_file_format=written)
    return time.perf_counter() - begun


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever dlt prints must not stand among the answers
    print(json.dumps({"version": dlt.__version__}), file=answers, flush=True)
    for line in sys.stdin:
        try:
            answer: Asked = {"seconds": move(json.loads(line))}
        except Exception as problem:  # told to whoever asked
            answer = {"error": f"{type(problem).__name__}: {problem}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
