"""The values of the log: records, bounds, topics and their settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import IntEnum
from operator import index
from typing import Any

import msgspec

from headwater.core.disposal import DISPOSALS, Disposal
from headwater.core.errors import BadBounds, BadInput, UnknownTopic
from headwater.core.period import CALENDAR, Calendar
from headwater.core.spelling import meant

Header = tuple[str, bytes | None]

TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")  # Kafka's rule, so that every topic can move there
OWN_FILES = frozenset({"lock", "engine.json", "engine.json.tmp"})  # names of files beside the folders of topics


class Mode(IntEnum):
    """What phase of a source's reading a record belongs to."""

    COPY = 0
    SYNC = 1
    COMPLETE = 2


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record. `offset` and `timestamp` are given by the log when they are None."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    timestamp: int | None = None  # milliseconds since 1970, UTC
    mode: int = Mode.COPY  # 0-3
    op: int = 0  # 0-7; the writer gives it a meaning
    offset: int | None = None


class Bounds(msgspec.Struct, frozen=True):
    """Offsets kept by a partition: [start, end)."""

    start: int
    end: int


class TopicSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is fixed for a topic when it is created."""

    segment: int = 256 << 20  # bytes after which a segment is closed; below 2 GiB
    period: int | Calendar = 0  # after which a segment is closed: of the UTC calendar, or milliseconds; 0: by size alone
    max_record: int = 16 << 20  # bytes of key, value and headers together
    disposal: Disposal = "delete"  # of the file of a segment whose records are all deleted
    owner: str = ""  # the part that alone changes the topic, as the log tells it; a part gives its name to `create_topic` instead

    def __post_init__(self) -> None:
        for name in ("segment", "period", "max_record"):
            value = getattr(self, name)
            if name == "period" and isinstance(value, str):
                continue
            if not isinstance(value, int) or isinstance(value, bool):  # written down, it could not be read again
                raise BadInput(f"The setting {name} is a whole number, not {value!r}.", hint=f"Give it such as {name}=1000.")
        if not 1 <= self.segment < 2 << 30:
            raise BadInput(
                f"A segment of {self.segment} bytes is not possible.", hint="Give a size from 1 byte to below 2 GiB, such as 256MiB."
            )
        if not 1 <= self.max_record <= 48 << 20:
            raise BadInput(f"A largest record of {self.max_record} bytes is not possible.", hint="Give a size up to 48MiB.")
        if self.disposal not in DISPOSALS:
            raise BadInput(f"{self.disposal!r} is no disposal of segments.", hint=f"Give one of {', '.join(DISPOSALS)}.")
        if isinstance(self.period, str):
            if self.period not in CALENDAR:
                raise BadInput(f"{self.period!r} is no period of the calendar.", hint=f"Give {', '.join(CALENDAR)}, or milliseconds.")
        elif self.period < 0:
            raise BadInput(f"A segment period of {self.period} ms is not possible.", hint="Give a duration such as 1h, or none.")


class Topic(msgspec.Struct, frozen=True):
    """A topic as it was created. `generation` differs when a deleted topic is created again under its name."""

    name: str
    partitions: int
    settings: TopicSettings
    generation: str = ""


class Compacted(msgspec.Struct, frozen=True):
    """What a compaction did."""

    records_before: int
    records_after: int
    bytes_before: int
    bytes_after: int


def unfit(records: object, error: Exception) -> BadInput:
    """The error for invalid records: which one, what is wrong, and what to write instead."""
    hint = "Give a list of `Record` with key and value as bytes or None, headers as (text, bytes) pairs, a timestamp in ms or None."
    for place, record in enumerate(records if isinstance(records, Sequence) and not isinstance(records, str | bytes) else [records]):
        if not isinstance(record, Record):
            return BadInput(f"Record {place} is of type {type(record).__name__}: {record!r:.60}.", hint=hint)
        parts: tuple[tuple[str, Any], ...] = (("key", record.key), ("value", record.value))
        for name, value in parts:
            if isinstance(value, str):
                return BadInput(f"The {name} of record {place} is text.", hint=f"Give its bytes: {name}={value!r:.40}.encode().")
            if value is not None and not isinstance(value, bytes | bytearray | memoryview):
                as_bytes = f"Give bytes, such as {name}=json.dumps(...).encode()."
                return BadInput(f"The {name} of record {place} is of type {type(value).__name__}.", hint=as_bytes)
        pairs = record.headers if isinstance(record.headers, tuple | list) else [None]
        if any(not isinstance(pair, tuple | list) or len(pair) != 2 for pair in pairs):
            return BadInput(f"The headers of record {place} are no pairs.", hint='Give them such as headers=(("name", b"value"),).')
        if record.timestamp is not None and type(record.timestamp) is not int:
            return BadInput(
                f"The timestamp of record {place} is {record.timestamp!r:.40}.",
                hint="Give milliseconds since 1970 as a whole number, or None.",
            )
    return BadInput(f"These records cannot be appended: {error}.", hint=hint)


def whole(value: int, what: str = "offset") -> int:
    """An offset, or another number, as it may be kept. Errors: `BadInput` for a value that is no whole number."""
    if type(value) is int:
        return value
    try:
        if not isinstance(value, bool):
            return index(value)
    except TypeError:
        pass
    raise BadInput(f"{value!r:.60} is no {what}.", hint="Give a whole number, such as 7.")


def partition_number(topic: str, partition: int) -> int:
    """The number of a partition. Errors: `BadInput` for a topic that is no text, and for a partition that is no whole number.

    A dict finds the entry of partition 0 for 0.0 and False, too: the call would work or fail by what is open.
    """
    if type(topic) is not str:
        check_topic_name(topic)
    return whole(partition, "partition")


def check_scan(start: int, end: int, batch: int) -> None:
    """Errors: `BadBounds` for offsets in the wrong order, and for batches without rows."""
    if end < start:
        raise BadBounds(f"Offsets {start} to {end} are the wrong way round.", hint="Give the lower one first.")
    if batch < 1:
        raise BadBounds(f"Batches of {batch} rows are not possible.", hint="Give 1 or more.")


def ascending(offsets: Sequence[int]) -> list[int]:
    """The offsets in order, each once. Errors: `BadInput` for what is no whole number."""
    try:
        if {int}.issuperset(map(type, offsets)):
            return sorted(set(offsets))
        if bool in map(type, offsets):
            raise TypeError("one is a truth value")
        return sorted({index(offset) for offset in offsets})
    except TypeError as error:
        raise BadInput(f"These are no offsets: {error}.", hint="Give a list of whole numbers, such as [7, 3].") from None


def check_topic_name(name: str) -> None:
    """Errors: `BadInput` for a name that Kafka would not take."""
    if not isinstance(name, str):
        raise BadInput(f"A topic's name is text, not {name!r}.", hint='Write it such as "orders".')
    if not TOPIC_NAME.fullmatch(name) or name in (".", ".."):
        raise BadInput(f"{name!r} is no topic name.", hint="Use 1 to 249 letters, digits, '.', '_' and '-'.")


def check_new_topic_name(name: str) -> None:
    """Errors: `BadInput` for a name that Kafka would not take, or that is reserved for headwater's own files."""
    check_topic_name(name)
    if not name[0].isalnum():
        raise BadInput(f"{name!r} cannot be the name of a topic of ours.", hint="Let it begin with a letter or a digit.")
    if name in OWN_FILES:
        raise BadInput(f"{name!r} is the name of a file of headwater's own.", hint=f"Choose another, such as {name.partition('.')[0]}s.")


def check_partitions(count: int) -> None:
    """Errors: `BadInput` for an invalid partition count."""
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= 4096:
        raise BadInput(f"A topic cannot have {count!r} partitions.", hint="Give a number from 1 to 4096.")


def unknown_topic(name: str, known: Iterable[str] = ()) -> UnknownTopic:
    """The error for an unknown topic, with the nearest known one and the command that creates it."""
    near = meant(name, known)
    did = f"Did you mean {near}? " if near else ""
    return UnknownTopic(
        f"There is no topic {name}.",
        hint=f"{did}Create it with `headwater log create {name}`, or list topics with `headwater log topics`.",
    )
