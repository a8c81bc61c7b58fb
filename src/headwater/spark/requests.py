"""The options of the data source, checked and read."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from headwater.core.config import load
from headwater.core.errors import BadInput
from headwater.log.address import LogAddress
from headwater.log.opening import address_of

T = TypeVar("T")
FOREVER = (1 << 63) - 1
SPLIT = 500_000
OPTIONS = {
    "path": "what to load; given to load()",
    "data": "the data directory of an embedded log",
    "servers": "Kafka's bootstrap servers, host:port with commas between",
    "partition": "read only this partition, or these with commas between",
    "startOffset": "the first offset: a number, earliest, latest, or JSON by partition",
    "endOffset": "the offset to stop before: a number, or JSON by partition",
    "startTimestamp": "begin with the first record at or after this time, in ISO 8601",
    "endTimestamp": "stop before the first record at or after this time, in ISO 8601",
    "splitRecords": "a partition with more records than this is read by several tasks",
    "maxRecordsPerTrigger": "of a stream: the most records of one batch",
}


class Span(msgspec.Struct, frozen=True):
    """Offsets [low, high)."""

    low: int = 0
    high: int = FOREVER

    def __and__(self, other: Span) -> Span:
        return Span(max(self.low, other.low), min(self.high, other.high))


class ReadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Where to read, what, and from where to where. It travels to tasks."""

    address: LogAddress
    target: str
    partitions: frozenset[int] | None = None  # None: all
    start: dict[int, int] | int | None = None  # by partition, or for all; None: the earliest
    end: dict[int, int] | int | None = None
    latest: bool = False  # begin after what is there now
    start_time: int | None = None
    end_time: int | None = None
    split: int = SPLIT
    limit: int | None = None

    def check_batch(self) -> ReadRequest:
        """Errors: `BadInput` for an option of streams."""
        if self.latest or self.limit is not None:
            raise BadInput("startOffset=latest and maxRecordsPerTrigger do not fit a read.", hint="Leave them out, or use readStream.")
        return self

    def check_planned(self) -> ReadRequest:
        """Errors: `BadInput` for an option that chooses records of a topic."""
        if self != ReadRequest(address=self.address, target=self.target, split=self.split):
            raise BadInput(
                f"{self.target} has no offsets, partitions and times to choose by.", hint="Leave the options out, and use a filter."
            )
        return self

    def check_store(self) -> ReadRequest:
        """Errors: `BadInput` where there is no data directory, or for an option that only a log has."""
        if not self.address.path:
            raise BadInput(f"{self.target} is a store in a data directory.", hint='Give it as .option("data", DIRECTORY).')
        if self != ReadRequest(address=self.address, target=self.target):
            raise BadInput("A store has no offsets, partitions and times to choose by.", hint="Leave the options out, and use a filter.")
        return self

    def check_stream(self) -> ReadRequest:
        """Errors: `BadInput` for an option of reads."""
        if self.end is not None or self.end_time is not None:
            raise BadInput("endOffset and endTimestamp do not fit a stream.", hint="Leave them out, or use read.")
        return self

    def span(self, partition: int) -> Span:
        """The offsets that the options leave of a partition."""
        return Span(_of(self.start, partition, 0), _of(self.end, partition, FOREVER))

    def has(self, partition: int) -> bool:
        return self.partitions is None or partition in self.partitions


def read_options(options: Mapping[str, str], own: Iterable[str] = ()) -> ReadRequest:
    """Without a place, the configured log. `own`: the options that the table has for itself, and reads itself.

    Errors: `BadInput` for an unknown option (with the nearest known one) or an unfit value.
    """
    given = {name.lower(): value for name, value in options.items()}
    client = {name.removeprefix("kafka."): given.pop(name) for name in list(given) if name.startswith("kafka.")}
    known = {name.lower(): name for name in (*OPTIONS, *own)}
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise BadInput(
                f"There is no option {name!r}.",
                hint=f"Did you mean {known[near[0]]}?" if near else f"The options are {', '.join(known.values())}.",
            )

    def value(name: str, read: Callable[[str], T], missing: T) -> T:
        return _read(name, given[name.lower()], read) if name.lower() in given else missing

    positive = partial(_count, least=1)
    latest = given.get("startoffset") == "latest"
    if given.get("startoffset") in ("earliest", "latest"):
        del given["startoffset"]
    return ReadRequest(
        address=_address(given, client),
        target=given.get("path", ""),
        partitions=value("partition", lambda text: frozenset(map(_count, text.split(","))), None),
        start=value("startOffset", _offsets, None),
        end=value("endOffset", _offsets, None),
        latest=latest,
        start_time=value("startTimestamp", _time, None),
        end_time=value("endTimestamp", _time, None),
        split=value("splitRecords", positive, SPLIT),
        limit=value("maxRecordsPerTrigger", positive, None),
    )


def _of(offsets: dict[int, int] | int | None, partition: int, missing: int) -> int:
    offset = offsets.get(partition) if isinstance(offsets, dict) else offsets
    return missing if offset is None else offset


def _address(given: Mapping[str, str], client: dict[str, str]) -> LogAddress:
    if "data" in given and "servers" in given:
        raise BadInput("The log's place is not clear.", hint='Give either .option("data", DIRECTORY) or .option("servers", "host:9092").')
    if "data" not in given and "servers" not in given:
        address = address_of(load().settings)
        return msgspec.structs.replace(address, client=address.client | client)
    if "data" in given:
        return LogAddress(path=str(Path(given["data"]).resolve()))
    return LogAddress(engine="kafka", servers=given["servers"], client=client)


def _read(name: str, text: str, read: Callable[[str], T]) -> T:
    try:
        return read(text)
    except (ValueError, TypeError) as problem:
        raise BadInput(f"{text!r} does not fit the option {name}.", hint=f"It is {OPTIONS[name]}.") from problem


def _count(text: str | int, least: int = 0) -> int:
    number = int(text)
    if number < least:
        raise ValueError(text)
    return number


def _offsets(text: str) -> dict[int, int] | int:
    return {_count(p): _count(n) for p, n in json.loads(text).items()} if text.strip().startswith("{") else _count(text)


def _time(text: str) -> int:
    moment = datetime.fromisoformat(text)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
