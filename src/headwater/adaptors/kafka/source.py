"""Reading topics: each partition up to where it ended, then whatever comes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from headwater.adaptors.kafka.adaptor import KafkaAdaptor
from headwater.adaptors.kafka.connection import DENIED, GONE, Cluster, explained
from headwater.core.errors import BadInput, Differs, HeadwaterError, NotFound, OffsetGone, Unreachable
from headwater.log.kafka.records import UNREADABLE, headers_of
from headwater.pipeline import values
from headwater.pipeline.adaptor import CopyPlan, Piece, Slice, SourceAdaptor
from headwater.pipeline.message import Message, Mode, Op, identified, op_said
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.source_progress import CopySize

_PIECE = 4 << 20  # bytes
_ONCE = 2000  # messages asked for at once
_WAIT = 0.5  # seconds
_FIRST = 15.0  # seconds without anything, before the end of what is followed was seen, after which brokers are said not to answer
_SILENCE = 60.0  # seconds after which a copy that gets nothing gives up
_LOOK = 30.0  # seconds between two looks for new topics and partitions
_ID = "id"  # beside the offsets of a topic's partitions in a cursor: which topic of that name it is

Cursor = dict[str, dict[str, Any]]  # by topic, the next offset of each partition, and the topic's id


class KafkaSource(SourceAdaptor[KafkaAdaptor]):
    """Topics. Positions are offsets of their partitions."""

    def check(self, chosen: Namespaces) -> list[str]:
        with Cluster(self.adaptor) as cluster:
            found = cluster.bounds(cluster.topics(chosen))
        return [f"topic {name}: {sum(end - begin for begin, end in ends.values()):,} offsets" for name, ends in found.items()]

    def same(self, plan: CopyPlan, chosen: Namespaces) -> bool:
        with Cluster(self.adaptor) as cluster:
            try:
                return cluster.identity(list(plan.identity)) == plan.identity
            except NotFound:
                return False

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        with Cluster(self.adaptor) as cluster:
            found = cluster.bounds(cluster.topics(chosen))
            parts = [
                Slice(name, {"partition": number, "begin": begin, "end": end}, end - begin)
                for name, ends in found.items()
                for number, (begin, end) in ends.items()
                if end > begin
            ]
            ids = cluster.identity(list(found))
            cursor = {name: {_ID: ids[name], **{str(number): end for number, (_, end) in ends.items()}} for name, ends in found.items()}
            size = CopySize(total=sum(one.size or 0 for one in parts), unit="offsets")
            fields = dict.fromkeys(found, self.adaptor.id)
            return CopyPlan(identity=ids, slices=tuple(parts), ids=fields, cursor=cursor, size=size, repeats=True)

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        """The messages of a partition in [position, end). The position is the next offset."""
        number, end = part.spec["partition"], part.spec["end"]
        begin: int = part.spec["begin"]
        at = begin if position is None else int(position)
        if at >= end:
            return
        with Cluster(self.adaptor, **{"queued.max.messages.kbytes": 32 << 10}) as cluster:
            kafka = cluster.kafka
            cluster.consumer.assign([kafka.TopicPartition(part.namespace, number, at)])
            gathered = _Gathered(self.adaptor.id)
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
                    elif final(error):
                        raise explained(error, cluster.where, f"reading {part.namespace}")
                    if gathered.full:
                        yield gathered.piece(min(at, end), min(at, end) - begin)
                if time.monotonic() > deadline:
                    raise Unreachable(
                        f"Kafka at {cluster.where} gave nothing of {part.namespace}, partition {number}, "
                        f"for {_SILENCE:g} s, at offset {at}.",
                        hint="See whether the brokers run, and whether a transaction stays open there.",
                    )
            yield gathered.piece(end, end - begin)

    def follow(self, cursor: Any, chosen: Namespaces, stopped: Callable[[], bool]) -> Iterator[Piece]:
        """Everything from the cursor on. Partitions that are new are read from their beginning."""
        at: Cursor = _copied(cursor or {})
        with Cluster(self.adaptor, **{"queued.max.messages.kbytes": 32 << 10}) as cluster:
            behind = _assign(cluster, at, chosen, {})  # partitions whose end was not seen yet
            looked = heard = time.monotonic()
            gathered = _Gathered(self.adaptor.id)
            while not stopped():
                for got in cluster.consumer.consume(_ONCE, _WAIT):
                    error = got.error()
                    if error is None:
                        gathered.add(got)
                        at[got.topic()][str(got.partition())] = got.offset() + 1
                        if gathered.full:
                            yield gathered.piece(_copied(at))
                        heard = time.monotonic()  # behind the piece: whoever takes it may be busy with it for long
                    elif error.code() == cluster.kafka.KafkaError._PARTITION_EOF:
                        behind.discard((got.topic(), got.partition()))
                    elif problem := _ending(error, got, at, cluster):
                        raise problem
                # An empty piece says that there is nothing more for now: not before the client has come to each partition's end once.
                if gathered or not behind:
                    yield gathered.piece(_copied(at))
                    heard = time.monotonic()
                elif time.monotonic() - heard > _FIRST:
                    raise _silent(behind, cluster)
                if time.monotonic() - looked > _LOOK:
                    looked = time.monotonic()
                    with suppress(NotFound):
                        _assign(cluster, at, chosen, _copied(at))


def _assign(cluster: Cluster, at: Cursor, chosen: Namespaces, known: Cursor) -> set[tuple[str, int]]:
    """Read those of the chosen partitions that are not known, each from where `at` says. Returns them.

    Errors: `Differs` for a topic that is no longer the one of which `at` speaks: its offsets mean other messages.
    """
    topics = cluster.topics(chosen)
    for name, id in cluster.identity(list(topics)).items():
        if at.setdefault(name, {_ID: id}).setdefault(_ID, id) != id:
            raise Differs(
                f"The topic {name} of Kafka at {cluster.where} was deleted and made anew since it was read.",
                hint="Read everything anew from its beginning with `headwater pipeline run --again`.",
            )
    more = [(name, number) for name, numbers in topics.items() for number in numbers if str(number) not in known.get(name, {})]
    for name, number in more:
        at[name].setdefault(str(number), 0)
    if more:
        assigned = [cluster.kafka.TopicPartition(name, number, at[name][str(number)]) for name, number in more]
        try:
            cluster.consumer.incremental_assign(assigned)
        except cluster.kafka.KafkaException as error:
            raise explained(error.args[0], cluster.where, "reading") from None
    return set(more)


def _silent(behind: set[tuple[str, int]], cluster: Cluster) -> Unreachable:
    name, number = min(behind)
    more = f" and {len(behind) - 1} more" if len(behind) > 1 else ""
    return Unreachable(
        f"Kafka at {cluster.where} gives nothing of {name}, partition {number}{more}, and does not say that there is nothing.",
        hint="See whether the brokers run, and whether each partition has a leader.",
    )


def _ending(error: Any, got: Any, at: Cursor, cluster: Cluster) -> HeadwaterError | None:
    """The error that ends the following; None for what passes: the client goes on by itself when brokers come back."""
    if gone(error):
        topic, number = got.topic(), got.partition()
        return OffsetGone(
            f"Kafka has deleted messages of {topic}, partition {number}, that were not read yet: it no longer has offset "
            f"{at.get(topic, {}).get(str(number))}.",
            hint="Copy anew with `run --again`, and give the topic a longer retention.",
        )
    if final(error):
        return explained(error, cluster.where, f"reading {got.topic() or 'a topic'}")
    return None


def final(error: Any) -> bool:
    """Whether the client does not get over it by itself. A right that is missing looks like a topic without messages else."""
    return bool(error.name() in GONE or error.name() in DENIED or error.fatal())


def gone(error: Any) -> bool:
    return error.name() in ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE")


def _copied(at: Cursor) -> Cursor:
    return {name: dict(numbers) for name, numbers in at.items()}


class _Gathered:
    """Messages on their way into a piece."""

    def __init__(self, ids: tuple[str, ...]) -> None:
        self._ids = ids
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

    def piece(self, position: Any, amount: int | None = None) -> Piece:
        made = Piece(position=position, messages=self._messages, bad=self._bad, amount=amount)
        self._messages, self._bad, self._size = [], {}, 0
        return made


def message_of(got: Any, ids: tuple[str, ...]) -> tuple[Message, str]:
    """A message of a topic as one of ours, and what is wrong with it: a value that is no JSON object is kept as text."""
    found = dict(headers_of(got))
    headers = {name: value for name, value in found.items() if value is not None}
    op, value = op_said(headers.get("op")), got.value()
    wrong = "The name of a header is not UTF-8, so that none of its headers can be read." if UNREADABLE in found else ""
    if value is None:
        op, data = Op.DELETE, identified(got.key(), headers.get("data"), ids)
        wrong = wrong or ("" if data else "It has neither a value nor a key.")
    else:
        try:
            data = values.decode(value)
        except BadInput as error:
            wrong, data = error.message, {"value": value.decode("utf-8", "backslashreplace")}
    if wrong:
        wrong = f"Offset {got.offset()} of {got.topic()}, partition {got.partition()}: {wrong}"
    kind, stamp = got.timestamp()
    return Message(got.topic(), data, op, stamp if kind else 0, Mode.SYNC, id_fields=ids), wrong
