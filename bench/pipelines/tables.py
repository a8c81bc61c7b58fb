"""A table of PostgreSQL to Parquet, against dlt's two ways to Arrow's tables and against Spark over JDBC."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from bench import mark
from bench.case import Case, Sample, Side, Skipped
from bench.peers.dlt import Dlt
from bench.pipelines import documents, outcome
from bench.pipelines.moving import moved
from bench.pipelines.rawspark import RawSpark, warm
from bench.sizes import Sizes
from headwater.core.errors import HeadwaterError
from headwater.core.ids import random_id
from headwater.pipeline import Pipeline
from headwater.pipeline.adaptors import file, postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def tables(folder: Path, sizes: Sizes, session: SparkSession, dlt: Dlt | str) -> Iterator[Case | Skipped]:
    try:
        with _server() as uri, _table(uri, sizes.documents) as name:
            yield from _cases(folder, sizes, session, dlt, uri, name)
    except _NoServer as none:
        yield Skipped("PostgreSQL → parquet", str(none))


def _cases(folder: Path, sizes: Sizes, session: SparkSession, dlt: Dlt | str, uri: str, name: str) -> Iterator[Case | Skipped]:
    count, whole = sizes.documents, documents.table(sizes.documents)
    check = partial(outcome.of_parquet, expected=whole)

    def built(pipeline: Pipeline, out: Path) -> None:
        chosen = f"^{name.replace('.', '[.]')}$"
        pipeline.source("shop", postgres(uri), namespace=chosen).save("out", file(f"{out}/", format="parquet"))

    ours = Side("pipeline", moved(folder, count, built, check))
    ways: tuple[Literal["pyarrow", "connectorx"], ...] = ("pyarrow", "connectorx")
    for way in ways:
        label = f"PostgreSQL → parquet beside dlt, {way}"
        if isinstance(dlt, str):
            yield Skipped(label, dlt)
        else:
            other = Side(f"dlt {dlt.version} {way}", partial(_by_dlt, dlt, way, uri, name, whole))
            yield Case(label, "row", ours, other, mark.ratio(1), rounds=sizes.few)
    raw = RawSpark(session, folder / "raw")
    try:
        raw.driver()
    except HeadwaterError as problem:
        yield Skipped("PostgreSQL → parquet", str(problem))
        return
    peer = Side("Spark JDBC → parquet", lambda: raw.table(uri, name, count, check))
    warm(peer, sizes)
    yield Case("PostgreSQL → parquet", "row", ours, peer, rounds=sizes.few)


def _by_dlt(dlt: Dlt, way: Literal["pyarrow", "connectorx"], uri: str, name: str, expected: pa.Table) -> Sample:
    seconds, out = dlt.move(way, uri, table=name)
    outcome.of_parquet(out.iterdir(), expected)
    return Sample(expected.num_rows, seconds)


class _NoServer(Exception):
    pass


@contextmanager
def _server() -> Iterator[str]:
    """A server that runs already, or one that is stopped afterwards."""
    from tools.services import release, up
    from tools.services.process import current

    me = current()
    try:
        import psycopg  # noqa: F401

        uri = up("postgres", kept=False, user=me).postgres
    except (HeadwaterError, ImportError) as problem:
        raise _NoServer(str(problem)) from problem
    try:
        yield uri
    finally:
        release(me)


@contextmanager
def _table(uri: str, count: int) -> Iterator[str]:
    """A filled table in a schema of its own: others use the server, too."""
    import psycopg

    schema = f"bench_{random_id().replace('-', '_').lower()}"
    with psycopg.connect(uri, autocommit=True) as link:
        link.execute(f"CREATE SCHEMA {schema}")
        try:
            link.execute(f"CREATE TABLE {schema}.orders ({documents.COLUMNS})")
            link.execute(documents.rows(f"{schema}.orders", count))
            link.execute(f"ANALYZE {schema}.orders")
            yield f"{schema}.orders"
        finally:
            link.execute(f"DROP SCHEMA {schema} CASCADE")
