"""Importing a transporter log directory: its records keep their offsets, and get the trailers that its format lacks.

Its record is ours without trailer, and its timestamps are seconds. Compaction stages are read as transporter would have finished them:
a `.swap` file takes the place of its `.log`; `.cleaned` and `.deleted` files do not count.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from headwater.core.disposal import overwrites
from headwater.core.errors import AlreadyExists, BadInput, Damaged
from headwater.core.files import explaining
from headwater.log.embedded import batches
from headwater.log.embedded.columns import reencode
from headwater.log.embedded.fields import Column, gather
from headwater.log.embedded.housekeeping import adopt, next_generation
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.manifest import Segment
from headwater.log.embedded.partition import Partition
from headwater.log.embedded.rewriting import SegmentWriter
from headwater.log.embedded.wiping import discard
from headwater.log.layout import BEFORE_MESSAGE, HEAD, HEADERS, LAST, NO_VALUE
from headwater.log.owners import new_settings
from headwater.log.record import TopicSettings

_RECORDS = 8192
_MOST = 1 << 62  # no offset and no time in milliseconds is that large
_NAME = re.compile(r"[0-9]{20}")
_OURS = HEADERS | LAST | NO_VALUE  # bits of the mode that transporter does not set; every batch of ours sets one


class Imported(msgspec.Struct, frozen=True):
    """What an import brought in. `torn`: bytes of an unfinished last record that were left out."""

    topic: str
    files: int
    records: int
    start: int
    end: int
    torn: int


def import_transporter(log: EmbeddedLog, directory: Path, topic: str) -> Imported:
    """Read `directory` into partition 0 of a new topic, or of an empty one with whatever settings it has; all or nothing.

    Errors: `BadInput` where there is no such log, and for segments of a headwater log; `AlreadyExists` for a topic with records;
    `OwnedTopic` for a name of a part's; `Damaged` where a file's middle makes no sense.
    """
    sources = _sources(directory)
    settings = new_settings(topic, TopicSettings(segment=1 << 30), "")  # refused before anything is read
    there = any(known.name == topic for known in log.topics())
    if there and log.bounds(topic, 0).end:
        raise AlreadyExists(f"Topic {topic} holds records already.", hint="Import into a new topic.")
    with explaining(directory, reading=True):
        for _ in _walked(sources):
            pass  # all of it makes sense, before there is a topic
    log.create_topic(topic, settings=None if there else settings)
    partition = log.partition(topic, 0)
    with explaining(partition.folder), partition.held():
        return _imported(partition, sources, topic)


def _imported(partition: Partition, sources: list[Path], topic: str) -> Imported:
    generation = next_generation(partition)
    made: list[Segment] = []
    records = torn = offset = 0
    try:
        for walked in _walked(sources):
            torn += walked.torn
            if walked.data is None or not len(walked.starts):
                continue
            offset = walked.end
            new = Segment(walked.base, generation, dense=False)
            made.append(_segment(partition, new, walked.data, walked.size, walked.starts, offset))
            records += len(walked.starts)
    except BaseException:
        discard(partition.files, partition.folder, made, secure=overwrites(partition.settings.disposal))
        raise
    if made:
        adopt(partition, made, offset)  # when this raises, the manifest may name the files all the same: they stay until the next opening
    return Imported(topic, len(sources), records, made[0].base if made else 0, offset, torn)


def _sources(directory: Path) -> list[Path]:
    if not directory.is_dir():
        raise BadInput(f"{directory} is not a directory.", hint="Name the directory that transporter's log_dir pointed at.")
    sources: dict[str, Path] = {}
    for suffix in (".log", ".swap"):
        for path in directory.glob(f"*{suffix}"):
            if _NAME.fullmatch(path.stem):
                sources[path.stem] = path
    if not sources:
        raise BadInput(f"{directory} holds no transporter log.", hint="Its files are named by 20 digits and .log.")
    return [sources[stem] for stem in sorted(sources)]


class _Source(NamedTuple):
    """One file: the lowest offset that it may hold, its records, the bytes of an unfinished one, and the offset behind them."""

    base: int
    data: mmap.mmap | None
    starts: Column
    size: int
    torn: int
    end: int


def _walked(sources: list[Path]) -> Iterator[_Source]:
    """The files one after the other. Errors: `Damaged`."""
    end = 0
    for number, path in enumerate(sources):
        base = max(int(path.stem), end)
        data, starts, size, torn = _records(path, base, last=number == len(sources) - 1)
        if data is not None and len(starts):
            end = int(gather(data, size, ">u8", starts[-1:])[0]) + 1
        yield _Source(base, data, starts, size, torn, end)


def _records(path: Path, offset: int, *, last: bool) -> tuple[mmap.mmap | None, Column, int, int]:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        if not size:
            return None, np.empty(0, np.int64), 0, 0
        if offset >= _MOST:
            raise Damaged(f"{path} is named by an offset that is too large.", hint="Give it the name of its first record's offset.")
        data = mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ)
    walked, stop = batches.walk(data, 0, size, offset, dense=False)
    starts = np.array(walked, np.int64)
    if (gather(data, size, "u1", starts + 20) & _OURS).any():
        raise BadInput(
            f"{path} is a segment of a headwater log, not of transporter's.",
            hint="Copy records of a topic with `headwater log show TOPIC --json | headwater log append OTHER --format ndjson`.",
        )
    offsets, seconds = (gather(data, size, ">u8", starts + at) for at in (0, 12))
    wrong = np.flatnonzero((offsets >= _MOST) | ((seconds >= _MOST // 1000) & (seconds < 1 << 63)))  # from there on: before 1970
    if len(wrong):
        stop = int(starts[wrong[0]])
    if len(wrong) or (stop < size and not (last and _torn(data, stop, size, int(offsets[-1]) + 1 if len(starts) else offset))):
        raise Damaged(
            f"{path} is damaged at byte {stop}: no record begins there, or one that cannot come next.",
            hint="Cut it there by hand to import what comes before.",
        )
    return data, starts, size, size - stop


def _torn(data: mmap.mmap, at: int, size: int, offset: int) -> bool:
    """Whether the rest of the last file is the beginning of a record, or zeros that a crash left, and not damage before whole records."""
    if size - at < HEAD.size or not np.frombuffer(data, np.uint8)[at:size].any():
        return True
    stored, message, _, _, _ = HEAD.unpack_from(data, at)
    return bool(offset <= stored < _MOST and at + BEFORE_MESSAGE + message > size)


def _segment(partition: Partition, segment: Segment, data: mmap.mmap, size: int, starts: Column, end: int) -> Segment:
    writer = SegmentWriter(partition.files, partition.folder, segment)
    try:
        for part in _batches(data, size, starts):
            writer.add(reencode(data, size, part, seconds=True), end)
        return writer.finish(end)
    except BaseException:
        writer.abandon(secure=overwrites(partition.settings.disposal))
        raise


def _batches(data: mmap.mmap, size: int, starts: Column) -> Iterator[Column]:
    sizes = 21 + gather(data, size, ">u4", starts + 8).astype(np.int64)
    for part in np.split(starts, np.flatnonzero(np.diff(np.cumsum(sizes) // (8 << 20))) + 1):
        for at in range(0, len(part), _RECORDS):
            yield part[at : at + _RECORDS]
