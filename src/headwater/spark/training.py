"""Makes the archive of Spark's classes (`headwater.spark.warm`): `python -m headwater.spark.training`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from tempfile import TemporaryDirectory

from headwater.core.errors import HeadwaterError
from headwater.core.settings import Passed, SparkSettings
from headwater.log import Record
from headwater.log.embedded.log import EmbeddedLog
from headwater.spark.java import cache_folder, find_java
from headwater.spark.starting import JAVA_OPTIONS, session
from headwater.spark.warm import SECONDS, archive_for, make


def record(options: Sequence[str]) -> None:
    """One run of Spark that loads what sessions load, with Java told to keep it."""
    from pyspark import SparkContext

    settings = SparkSettings(master="local[2]", conf=Passed({JAVA_OPTIONS: " ".join(options)}))
    spark = session(settings, archive="none")
    spark.sparkContext.parallelize(range(2), 2).mapPartitions(lambda numbers: numbers).collect()
    spark.range(0, 2, 1, 2).mapInArrow(lambda batches: batches, "id long").toArrow()
    spark.range(10).selectExpr("id", "cast(id as string) as text").where("id > 3").groupBy("id").count().collect()
    with TemporaryDirectory() as folder, EmbeddedLog(folder) as log:
        log.create_topic("training")
        log.append("training", 0, [Record(b"key", b"value")])
        spark.read.format("headwater").option("data", folder).load("topic:training").orderBy("offset").collect()
    gateway = SparkContext._gateway
    spark.stop()
    gateway.proc.stdin.close()  # type: ignore[union-attr]  # Java ends when its standard input does, and writes the archive then
    gateway.proc.wait(SECONDS)  # type: ignore[union-attr]


def main(words: Sequence[str]) -> int:
    if words and words[0] == "--record":
        record(words[1:])
        return 0
    if words and words[0] == "--background":
        os.nice(19)
    try:
        archive = archive_for(find_java(), cache_folder())
        done = make(archive)
    except HeadwaterError as problem:
        print(problem, file=sys.stderr)
        return problem.exit_code
    print(f"{archive.path} is ready." if done else "Another process is making it.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
