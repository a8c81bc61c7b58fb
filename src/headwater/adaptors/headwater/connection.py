"""The adaptor's connection to a log: in a directory, on Kafka, or behind a server."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.adaptors.headwater.address import HeadwaterAddress, resolved_address
from headwater.core.errors import BadConfig, NotFound, UnknownTopic
from headwater.log import Log, Watching
from headwater.log.record import Bounds, Record, Topic
from headwater.pipeline.clients import Closing

if TYPE_CHECKING:
    from headwater.adaptors.headwater.adaptor import HeadwaterAdaptor

BYTES = 4 << 20  # of records that are asked for or sent at once
SECONDS = 30.0  # for one request


class HeadwaterConnection(Closing):
    """One open log. Used in one thread."""

    where: str  # for messages: never a secret
    splits: bool  # whether reading may begin inside a partition: not where an earlier claim says which later records count
    log: Log | None = None  # where this process opens it
    pause: float  # seconds between two reads, where `watch` does not report a new record before

    @abstractmethod
    def names(self) -> list[str]:
        """The names of all topics."""

    @abstractmethod
    def find(self, name: str) -> Topic:
        """Errors: `UnknownTopic`."""

    @abstractmethod
    def create(self, name: str, partitions: int) -> Topic:
        """Errors: `AlreadyExists` with other partitions."""

    @abstractmethod
    def bounds(self, topic: str, partition: int) -> Bounds: ...

    def epoch(self, topic: str, partition: int) -> int:
        """The newest claim, where reading that begins behind it must know of it; 0 where there is none, or where that is not told."""
        return 0

    @abstractmethod
    def read(self, topic: str, partition: int, start: int, limit: int) -> list[Record]:
        """As `Log.read`, some `BYTES` at most."""

    def watch(self, topic: Topic, changed: Callable[[], None]) -> Sequence[Watching]:
        """Call `changed` when one of the topic's partitions has grown. Returns nothing where that is not possible."""
        return ()

    @abstractmethod
    def append(self, topic: str, partition: int, records: Sequence[Record], seconds: float) -> None:
        """As `Log.append`; over HTTP within so many seconds."""

    @abstractmethod
    def probe(self, topic: Topic | None) -> None:
        """Check that records may be appended, without appending any. Errors: `Denied`, `BadConfig`, `ReadOnly`."""

    def topic(self, name: str) -> Topic:
        """The topic. Errors: `UnknownTopic` with the nearest name."""
        try:
            return self.find(name)
        except UnknownTopic:
            near = get_close_matches(name, self.names(), 1)
            hint = f"Did you mean {near[0]}?" if near else f"Create it with `headwater log create {name}`, or name another."
            raise UnknownTopic(f"{self.where} has no topic {name}.", hint=hint) from None

    def all_bounds(self, topic: Topic) -> list[Bounds]:
        return [self.bounds(topic.name, number) for number in range(topic.partitions)]

    def claimed_bounds(self, topic: Topic) -> list[tuple[Bounds, int]]:
        """The bounds of each partition, and the newest claim before its end."""
        claims: list[tuple[Bounds, int]] = []
        for number in range(topic.partitions):
            epoch, before = self.epoch(topic.name, number), -1
            while epoch != before:  # a claim that comes between the two answers may lie behind the end
                bounds, before = self.bounds(topic.name, number), epoch
                epoch = self.epoch(topic.name, number)
            claims.append((bounds, epoch))
        return claims


class LogConnection(HeadwaterConnection):
    """A log that this process opens: a directory, or Kafka."""

    def __init__(self, log: Log, where: str) -> None:
        self.log = self._log = log
        self.where = where
        self.splits = log.engine == "embedded"
        self.pause = 0.2

    def names(self) -> list[str]:
        return [topic.name for topic in self._log.topics()]

    def find(self, name: str) -> Topic:
        return self._log.topic(name)

    def create(self, name: str, partitions: int) -> Topic:
        return self._log.create_topic(name, partitions=partitions)

    def bounds(self, topic: str, partition: int) -> Bounds:
        return self._log.bounds(topic, partition)

    def epoch(self, topic: str, partition: int) -> int:
        return 0 if self.splits else self._log.epoch(topic, partition)

    def read(self, topic: str, partition: int, start: int, limit: int) -> list[Record]:
        return self._log.read(topic, partition, start, limit=limit, max_bytes=BYTES)

    def watch(self, topic: Topic, changed: Callable[[], None]) -> Sequence[Watching]:
        return [self._log.watch(topic.name, number, changed) for number in range(topic.partitions)]

    def append(self, topic: str, partition: int, records: Sequence[Record], seconds: float) -> None:
        self._log.append(topic, partition, records)

    def probe(self, topic: Topic | None) -> None:
        for number in range(topic.partitions if topic is not None else 0):
            # On Kafka this would read the whole topic, before each run.
            if topic is not None and self._log.engine == "embedded" and self._log.epoch(topic.name, number):
                raise BadConfig(
                    f"Partition {number} of {topic.name} at {self.where} has an owner, so this pipeline cannot append to it.",
                    hint="Name a topic that everybody may append to.",
                )

    def close(self) -> None:
        self._log.close()


def opened(adaptor: HeadwaterAdaptor, *, read_only: bool, seconds: float = SECONDS) -> HeadwaterConnection:
    """The log that the adaptor names. Errors: `BadConfig`, `NotFound`, `Unreachable`, `WrongEngine`."""
    place = resolved_address(adaptor)
    if place.kind == "server":
        from headwater.adaptors.headwater.server import ServerConnection

        return ServerConnection(place.where, None if adaptor.token is None else str(adaptor.resolved().token), seconds)
    return LogConnection(_log(place, read_only, seconds), str(place))


def _log(place: HeadwaterAddress, read_only: bool, seconds: float) -> Log:
    if place.kind == "kafka":
        from headwater.log.kafka.log import KafkaLog

        return KafkaLog(place.where, client=place.client, read_only=read_only, timeout=seconds)
    from headwater.log.embedded.log import EmbeddedLog

    if read_only and not Path(place.where).is_dir():
        raise NotFound(f"There is no data directory {place.where}.", hint="Name the one that `headwater serve --data` was given.")
    return EmbeddedLog(Path(place.where), read_only=read_only)


def counted(partitions: int) -> str:
    return "1 partition" if partitions == 1 else f"{partitions} partitions"
