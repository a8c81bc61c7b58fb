"""The same copies in Spark alone: nothing is logged, nothing is synced, and there is nothing to resume from."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tools.services.jars import Jar, Jars
from tools.services.place import Place

from bench.case import Sample, Side
from bench.machine import processor_time
from bench.pipelines import documents
from bench.sizes import Sizes
from headwater.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DRIVER = Jars(
    "jdbc",
    [Jar("jdbc", "org.postgresql", "postgresql", "42.7.12", "", "31fbf6f06b2217fb51d5100cee51b22625cc81640da0679b47914e54c1e6377c")],
)
_FETCHED = 10_000  # rows at once: by default the driver takes the whole table into memory


@dataclass(frozen=True, slots=True)
class RawSpark:
    """Copies by the session that pipelines use, too. Java compiles them as they are repeated: the first ones take several times as long."""

    session: SparkSession
    out: Path

    def lines(self, source: Path, count: int, check: Callable[[Iterator[Path]], None]) -> Sample:
        """JSON to JSON, with the schema given: Spark need not look through the file first."""
        return self._copied(lambda: self._read(source).write.mode("overwrite").json(str(self.out)), count, check)

    def parquet(self, source: Path, count: int, check: Callable[[Iterator[Path]], None]) -> Sample:
        return self._copied(lambda: self._read(source).write.mode("overwrite").parquet(str(self.out)), count, check)

    def table(self, uri: str, name: str, count: int, check: Callable[[Iterator[Path]], None]) -> Sample:
        """A table over JDBC to Parquet, in as many parts as Spark has cores. `driver` comes first."""
        return self._copied(lambda: self._jdbc(uri, name, count).write.mode("overwrite").parquet(str(self.out)), count, check)

    def driver(self) -> None:
        """Make PostgreSQL's driver known to the session. Errors: `Unreachable` where it cannot be had."""
        folder = DRIVER.have(Place.usual(), find_java())
        self.session.sql(f"ADD JAR '{folder / DRIVER.jars[0].file}'")

    def _read(self, source: Path) -> DataFrame:
        return self.session.read.schema(documents.SCHEMA).json(str(source))

    def _jdbc(self, uri: str, name: str, count: int) -> DataFrame:
        where = urlsplit(uri)
        options = {
            "url": f"jdbc:postgresql://{where.hostname}:{where.port}{where.path}",
            "user": where.username or "",
            "password": where.password or "",
            "driver": "org.postgresql.Driver",
            "dbtable": name,
            "fetchsize": str(_FETCHED),
            "partitionColumn": "_id",
            "lowerBound": "0",
            "upperBound": str(count),
            "numPartitions": str(self.session.sparkContext.defaultParallelism),
        }
        return self.session.read.format("jdbc").options(**options).load()

    def _copied(self, copy: Callable[[], None], count: int, check: Callable[[Iterator[Path]], None]) -> Sample:
        begun, used = time.perf_counter(), processor_time()
        copy()
        seconds, used = time.perf_counter() - begun, processor_time() - used
        check(self.out.glob("part-*"))
        return Sample(count, seconds, used)


def warm(peer: Side, sizes: Sizes) -> None:
    """Rounds of Spark's that nobody counts: one, as everybody gets, would leave it half as fast as it can be."""
    for _ in range(sizes.few):
        peer.run()
