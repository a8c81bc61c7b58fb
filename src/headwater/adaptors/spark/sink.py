"""Writing: tasks stage Parquet, the run saves it through Spark."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.adaptors.file.readback import of_table
from headwater.adaptors.file.tables import TableWriter
from headwater.adaptors.file.target import gone
from headwater.adaptors.spark.connection import loaded, spoken, staging, started
from headwater.adaptors.spark.ranges import Ranges
from headwater.core.files import explained
from headwater.pipeline.adaptor import Part, SinkWriter

if TYPE_CHECKING:
    from headwater.adaptors.spark.adaptor import SparkAdaptor


def writer(adaptor: SparkAdaptor, part: Part) -> SinkWriter:
    """A writer of Parquet, in a folder of the run's own, to a name that Spark would not read if it began with a dot."""
    folder = staging(adaptor, part.pipeline, part.sink) / f"run-{part.epoch}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise explained(error, folder) from error
    return TableWriter(folder / f"{part.start}-{part.end}-{part.bucket}of{part.buckets}.{part.attempt}", compression="snappy")


def begin(adaptor: SparkAdaptor, pipeline: str, sink: str, epoch: int) -> list[tuple[int, int]] | None:
    """Sweep what dead runs have left. Returns the ranges that are there whole; None where nobody can tell."""
    held = Ranges(adaptor, pipeline, sink).begin(epoch) if adaptor.path is not None else None
    for run in staging(adaptor, pipeline, sink).glob("run-*"):
        if int(run.name.removeprefix("run-")) < epoch:
            shutil.rmtree(run, ignore_errors=True)
    return held


def publish(adaptor: SparkAdaptor, part: Part, receipt: dict[str, Any]) -> None:
    """Save what was staged. Of several tables the first one comes last: it says that the range is there."""
    session, files, end = started(), [Path(one) for one in receipt["files"]], int(receipt["end"])
    ranges = Ranges(adaptor, part.pipeline, part.sink) if adaptor.path is not None else None
    if ranges is not None:
        ranges.check(part.epoch)
    for number, file in reversed(list(enumerate(files))):
        saved = file.with_name(f"{file.name}.saved")
        if not file.exists():
            if not saved.exists():
                raise gone(file)
            continue  # this is a second try, and the first one came so far
        with spoken(adaptor, f"write {adaptor.format}"):
            out = session.read.parquet(str(file)).write.format(adaptor.format).options(**adaptor.given())
            if ranges is None:
                out.mode("append").save()
            else:
                out.mode("overwrite").save(ranges.at(part, end, number))
        saved.touch()
        file.unlink()
    if ranges is not None and not files and part.buckets > 1:
        ranges.empty(part, end)


def rows(adaptor: SparkAdaptor) -> Iterator[dict[str, Any]]:
    """What is there. Errors: as `spoken`."""
    if adaptor.path is None:
        frames = [loaded(adaptor)]
    else:
        paths = Ranges(adaptor, "", "").readable()
        with spoken(adaptor, f"read {adaptor.format}"):
            frames = [started().read.format(adaptor.format).options(**adaptor.given()).load(path) for path in paths]
    for frame in frames:
        with spoken(adaptor, f"read {adaptor.format}"):
            for row in frame.toLocalIterator():
                yield of_table(row.asDict(recursive=True))
