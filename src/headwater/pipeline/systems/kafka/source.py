"""Reading topics: each partition up to where it ended, then whatever comes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from headwater.core.errors import BadInput, Differs, HeadwaterError, NotFound, OffsetGone, Unreachable
from headwater.pipeline import values
from headwater.pipeline.adaptor import CopyPlan, Piece, Slice
from headwater.pipeline.message import Message, Mode, Op, identified, op_named
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.systems.kafka.link import GONE, Cluster, explained

if TYPE_CHECKING:
    from headwater.pipeline.systems.kafka.adaptor import Kafka

_PIECE = 4 << 20  # bytes
_ONCE = 2000  # messages asked for at once
_WAIT = 0.5  # seconds
_FIRST = 15.0  # seconds to come to the end of what is followed, before it is said to be quiet
_SILENCE = 60.0  # seconds after which a copy that gets nothing gives up
_LOOK = 30.0  # seconds between two looks for new topics and partitions


def plan(adaptor: Kafka, chosen: Namespaces) -> CopyPlan:
    with Cluster(adaptor) as cluster:
        found = cluster.bounds(cluster.topics(chosen))
        slices = [
            Slice(name, {"partition": number, "begin": begin, "end": end})
            for name, ends in found.items()
            for number, (begin, end) in ends.items()
            if end > begin
        ]
        cursor = {name: {str(number): end for number, (_, end) in ends.items()} for name, ends in found.items()}
        return CopyPlan(identity=cluster.identity(list(found)), slices=tuple(slices), ids=dict.fromkeys(found, adaptor.id), cursor=cursor)


def read(adaptor: Kafka, part: Slice, position: Any) -> Iterator[Piece]:
    """The messages of a partition in [position, end). The position is the next offset."""
    number, end = part.spec["partition"], part.spec["end"]
    at = part.spec["begin"] if position is None else int(position)
    if at >= end:
        return
    with Cluster(adaptor, **{"queued.max.messages.kbytes": 32 << 10}) as cluster:
        kafka = cluster.kafka
        cluster.consumer.assign([kafka.TopicPartition(part.namespace, number, at)])
        gathered = _Gathered(adaptor)
        deadline = time.monotonic() + _SILENCE
        while at < end:
            for got in cluster.consumer.consume(_ONCE, _WAIT):
                deadline = time.monotonic() + _SILENCE
                error = got.error()
                if error is None:
                    at = got.offset() + 1
                    if got.offset() < end:
                        gathered.add(got)
                elif error.code() == kafka.KafkaError._PARTITION_EOF:
                    at = max(at, got.offset())
                elif gone(error):
                    raise Differs(
                        f"Messages of {part.namespace}, partition {number}, were deleted while they were copied, at offset {at}.",
                        hint="Begin anew with `run --again`, and give the topic a longer retention.",
                    )
                elif error.name() in GONE or error.fatal():
                    raise explained(error, cluster.where, f"reading {part.namespace}")
                if gathered.full:
                    yield gathered.piece(min(at, end))
            if time.monotonic() > deadline:
                raise Unreachable(
                    f"Kafka at {cluster.where} gave nothing of {part.namespace}, partition {number}, for {_SILENCE:g} s, at offset {at}.",
                    hint="See whether the brokers run, and whether a transaction stays open there.",
                )
        yield gathered.piece(end)


def follow(adaptor: Kafka, cursor: Any, chosen: Namespaces, stopped: Callable[[], bool]) -> Iterator[Piece]:
    """Everything from the cursor on: the next offset of each partition, by topic. Partitions that are new are read from their beginning."""
    at: dict[str, dict[str, int]] = {name: dict(numbers) for name, numbers in (cursor or {}).items()}
    with Cluster(adaptor, **{"queued.max.messages.kbytes": 32 << 10}) as cluster:
        behind = _assign(cluster, at, cluster.topics(chosen), {})  # partitions whose end was not seen yet
        looked = began = time.monotonic()
        gathered = _Gathered(adaptor)
        while not stopped():
            for got in cluster.consumer.consume(_ONCE, _WAIT):
                error = got.error()
                if error is None:
                    gathered.add(got)
                    at[got.topic()][str(got.partition())] = got.offset() + 1
                    if gathered.full:
                        yield gathered.piece(_copied(at))
                elif error.code() == cluster.kafka.KafkaError._PARTITION_EOF:
                    behind.discard((got.topic(), got.partition()))
                elif problem := _ending(error, got, at, cluster):
                    raise problem
            # An empty piece says that there is nothing more for now: not before the client has come to each partition's end once.
            if gathered or not behind or time.monotonic() - began > _FIRST:
                yield gathered.piece(_copied(at))
            if time.monotonic() - looked > _LOOK:
                looked = time.monotonic()
                with suppress(NotFound):
                    _assign(cluster, at, cluster.topics(chosen), at)


def _assign(
    cluster: Cluster, at: dict[str, dict[str, int]], topics: dict[str, list[int]], known: dict[str, dict[str, int]]
) -> set[tuple[str, int]]:
    """Read those of these partitions that are not known, each from where `at` says. Returns them."""
    more = [(name, number) for name, numbers in topics.items() for number in numbers if str(number) not in known.get(name, {})]
    for name, number in more:
        at.setdefault(name, {}).setdefault(str(number), 0)
    if more:
        assigned = [cluster.kafka.TopicPartition(name, number, at[name][str(number)]) for name, number in more]
        try:
            cluster.consumer.incremental_assign(assigned)
        except cluster.kafka.KafkaException as error:
            raise explained(error.args[0], cluster.where, "reading") from None
    return set(more)


def _ending(error: Any, got: Any, at: dict[str, dict[str, int]], cluster: Cluster) -> HeadwaterError | None:
    """The error that ends the following; None for what passes: the client goes on by itself when brokers come back."""
    if gone(error):
        topic, number = got.topic(), got.partition()
        return OffsetGone(
            f"Kafka has deleted messages of {topic}, partition {number}, that were not read yet: it no longer has offset "
            f"{at.get(topic, {}).get(str(number))}.",
            hint="Copy anew with `run --again`, and give the topic a longer retention.",
        )
    if error.name() in GONE or error.fatal():
        return explained(error, cluster.where, f"reading {got.topic() or 'a topic'}")
    return None


def gone(error: Any) -> bool:
    return error.name() in ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE")


def _copied(at: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    return {name: dict(numbers) for name, numbers in at.items()}


class _Gathered:
    """Messages on their way into a piece."""

    def __init__(self, adaptor: Kafka) -> None:
        self._ids = adaptor.id
        self._messages: list[Message] = []
        self._bad: dict[int, str] = {}
        self._size = 0

    @property
    def full(self) -> bool:
        return self._size >= _PIECE

    def __bool__(self) -> bool:
        return bool(self._messages)

    def add(self, got: Any) -> None:
        message, wrong = message_of(got, self._ids)
        if wrong:
            self._bad[len(self._messages)] = wrong
        self._messages.append(message)
        self._size += len(got)

    def piece(self, position: Any) -> Piece:
        made = Piece(position=position, messages=self._messages, bad=self._bad)
        self._messages, self._bad, self._size = [], {}, 0
        return made


def message_of(got: Any, ids: tuple[str, ...]) -> tuple[Message, str]:
    """A message of a topic as one of ours, and what is wrong with it: a value that is no JSON object is kept as text."""
    headers = {name: value for name, value in got.headers() or () if value is not None}
    op, wrong, value = Op.INSERT, "", got.value()
    with suppress(BadInput, UnicodeDecodeError):
        op = op_named(headers["op"].decode()) if "op" in headers else op
    if value is None:
        op, data = Op.DELETE, identified(got.key(), headers.get("data"), ids)
        wrong = "" if data else "It has neither a value nor a key."
    else:
        try:
            data = values.decode(value)
        except BadInput as error:
            wrong, data = error.message, {"value": value.decode("utf-8", "backslashreplace")}
    if wrong:
        wrong = f"Offset {got.offset()} of {got.topic()}, partition {got.partition()}: {wrong}"
    kind, stamp = got.timestamp()
    return Message(got.topic(), data, op, stamp if kind else 0, Mode.SYNC, id_fields=ids), wrong
