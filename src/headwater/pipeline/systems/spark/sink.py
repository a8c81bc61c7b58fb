"""Writing: tasks stage Parquet, the run saves it through Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.pipeline import values
from headwater.pipeline.adaptor import Part, SinkWriter
from headwater.pipeline.env import resolve
from headwater.pipeline.systems.file.writers import TableWriter
from headwater.pipeline.systems.spark.link import Folder, loaded, spoken, staging, started

if TYPE_CHECKING:
    from headwater.pipeline.systems.spark.adaptor import Spark

_RANGE = re.compile(r"range-(\d{20})-(\d{20})(?:-(\d+)of(\d+))?(?:\.(\d+))?")


def writer(adaptor: Spark, part: Part) -> SinkWriter:
    """A writer of Parquet to a temporary name, which Spark would not read if it began with a dot."""
    folder = staging(adaptor)
    folder.mkdir(parents=True, exist_ok=True)
    name = f"tmp-{part.start}-{part.end}-{part.bucket}of{part.buckets}.{part.attempt}"
    return TableWriter(folder / name, compression="snappy")


def begin(adaptor: Spark, pipeline: str, sink: str) -> list[tuple[int, int]] | None:
    """Sweep what dead runs have left. Returns the ranges that are there whole; None where nobody can tell."""
    for leftover in staging(adaptor).glob("tmp-*"):
        leftover.unlink(missing_ok=True)
    if adaptor.path is None:
        return None
    folder = Folder(resolve(adaptor.path))
    names = [name for name in folder.names() if _RANGE.fullmatch(name)]
    shares: dict[tuple[int, int, int], dict[int, str]] = {}
    for name in names:
        match = _RANGE.fullmatch(name)
        if match and not match[5] and folder.has(f"{name}/_SUCCESS"):
            shares.setdefault((int(match[1]), int(match[2]), int(match[4] or 1)), {})[int(match[3] or 0)] = name
    whole = {name for (_, _, of), have in shares.items() if len(have) == of for name in have.values()}
    for name in names:  # the range comes again, and may be cut in another way
        if name.partition(".")[0] not in whole:
            folder.remove(name)
    return [(start, end) for (start, end, of), have in shares.items() if len(have) == of]


def publish(adaptor: Spark, part: Part, receipt: dict[str, Any]) -> None:
    """Save what was staged. Of several tables the first one comes last: it says that the range is there."""
    session, files = started(), [Path(one) for one in receipt["files"]]
    share = f"-{part.bucket}of{part.buckets}" if part.buckets > 1 else ""
    name = f"{'replay' if part.again else 'range'}-{part.start:020d}-{int(receipt['end']):020d}{share}"
    if part.again:
        name += f"-{part.attempt}"
    for number, file in reversed(list(enumerate(files))):
        if not file.exists():
            continue  # this is a second try, and the first one came so far
        with spoken(adaptor, f"write {adaptor.format}"):
            out = session.read.parquet(str(file)).write.format(adaptor.format).options(**adaptor.given())
            if adaptor.path is None:
                out.mode("append").save()
            else:
                out.mode("overwrite").save(f"{resolve(adaptor.path).rstrip('/')}/{name}{f'.{number}' if number else ''}")
        file.unlink()
    if not files and part.buckets > 1 and adaptor.path is not None:  # a share without rows: without it the others would not count
        Folder(resolve(adaptor.path)).touch(f"{name}/_SUCCESS")


def forget(adaptor: Spark, position: int) -> None:
    """Ranges behind the position are hidden, and come again. One that begins before it stays as `kept-`: its end comes twice."""
    if adaptor.path is None:
        return
    folder = Folder(resolve(adaptor.path))
    for name in folder.names():
        match = _RANGE.fullmatch(name)
        if match and int(match[1]) > position:
            folder.rename(name, f"_replaced-{name}")
        elif match and int(match[2]) > position + 1:
            folder.rename(name, f"kept-{name}")


def rows(adaptor: Spark) -> Iterator[dict[str, Any]]:
    """What is there. Errors: as `spoken`."""
    if adaptor.path is None:
        frames = [loaded(adaptor)]
    else:
        base = resolve(adaptor.path).rstrip("/")
        folder = Folder(base)
        names = [name for name in folder.names() if name.startswith(("range-", "kept-")) and folder.names(name) != ["_SUCCESS"]]
        with spoken(adaptor, f"read {adaptor.format}"):
            frames = [started().read.format(adaptor.format).options(**adaptor.given()).load(f"{base}/{name}") for name in names]
    for frame in frames:
        with spoken(adaptor, f"read {adaptor.format}"):
            for row in frame.toLocalIterator():
                yield values.extended(row.asDict(recursive=True))
