"""Reading topics: each partition up to its end, then new messages."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from headwater.adaptors.kafka.adaptor import KafkaAdaptor
from headwater.adaptors.kafka.connection import DENIED, GONE, Cluster, explained
from headwater.adaptors.pieces import PieceBuffer, decoded
from headwater.core.errors import Differs, HeadwaterError, NotFound, OffsetGone, Unreachable
from headwater.log.kafka.records import UNREADABLE, headers_of
from headwater.pipeline.location import TOPICS, Location
from headwater.pipeline.message import Message, Mode, Op, identified, op_said
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.source_adaptor import CopyPlan, Piece, Slice, SourceAdaptor
from headwater.pipeline.source_progress import CopySize
from headwater.pipeline.values import Decimals

_PIECE = 4 << 20  # bytes
_ONCE = 2000  # messages asked for at once
_WAIT = 0.5  # seconds
_FIRST = 15.0  # seconds without a message before every partition's end was seen, after which the brokers count as silent
_SILENCE = 60.0  # seconds without a message, after which a copy gives up
_LOOK = 30.0  # seconds between two checks for new topics and partitions
_ID = "id"  # the topic's id, beside the offsets of its partitions in a cursor

Cursor = dict[str, dict[str, Any]]  # by topic, the next offset of each partition, and the topic's id


class KafkaSource(SourceAdaptor[KafkaAdaptor]):
    """Topics. Positions are offsets of their partitions."""

    joins = "followed"

    def check(self, chosen: Namespaces) -> list[str]:
        with Cluster(self.adaptor) as cluster:
            bounds = cluster.bounds(cluster.topics(chosen))
        return [f"topic {name}: {sum(end - begin for begin, end in ends.values()):,} offsets" for name, ends in bounds.items()]

    def locations(self, chosen: Namespaces) -> list[Location]:
        """The topics by their names, and by their ids, as a log on Kafka knows them. Topics that are made later are followed, too."""
        with Cluster(self.adaptor) as cluster:
            system, topics = cluster.system(), cluster.identity(list(cluster.topics(chosen)))
        locations = [*(Location(system, name) for name in topics), *(Location(TOPICS, topic_id) for topic_id in topics.values())]
        return [*locations, Location(system, chosen=chosen)] if self.adaptor.tail else locations

    def same(self, plan: CopyPlan, chosen: Namespaces) -> bool:
        with Cluster(self.adaptor) as cluster:
            try:
                return cluster.identity(list(plan.identity)) == plan.identity
            except NotFound:
                return False

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        with Cluster(self.adaptor) as cluster:
            bounds = cluster.bounds(cluster.topics(chosen))
            parts = [
                Slice(name, {"partition": number, "begin": begin, "end": end}, end - begin)
                for name, ends in bounds.items()
                for number, (begin, end) in ends.items()
                if end > begin
            ]
            ids = cluster.identity(list(bounds))
            cursor = {name: {_ID: ids[name], **{str(number): end for number, (_, end) in ends.items()}} for name, ends in bounds.items()}
            size = CopySize(total=sum(part.size or 0 for part in parts), unit="offsets")
            fields = dict.fromkeys(bounds, self.adaptor.id)
            return CopyPlan(identity=ids, slices=tuple(parts), ids=fields, cursor=cursor, size=size, repeats=True)

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        """The messages of a partition in [position, end). The position is the next offset."""
        number, end = part.spec["partition"], part.spec["end"]
        begin: int = part.spec["begin"]
        at = begin if position is None else int(position)
        if at >= end:
            return
        with Cluster(self.adaptor, **{"queued.max.messages.kbytes": 32 << 10}) as cluster:
            cluster.consumer.assign([TopicPartition(part.namespace, number, at)])
            gathered = PieceBuffer(_PIECE)
            deadline = time.monotonic() + _SILENCE
            while at < end:
                for got in cluster.consumer.consume(_ONCE, _WAIT):
                    deadline = time.monotonic() + _SILENCE
                    error = got.error()
                    if error is None:
                        at = got.offset() + 1
                        if got.offset() < end:
                            gathered.add(*message_of(got, self.adaptor.id, self.adaptor.decimals), size=len(got) + len(got.key() or b""))
                    elif error.code() == KafkaError._PARTITION_EOF:
                        at = max(at, got.offset())
                    elif is_gone(error):
                        raise Differs(
                            f"Messages of {part.namespace}, partition {number}, were deleted while they were copied, at offset {at}.",
                            hint="Begin anew with `run --again`, and give the topic a longer retention.",
                        )
                    elif is_final(error):
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
        """Everything from the cursor on. New partitions are read from their beginning."""
        at: Cursor = _copied(cursor or {})
        with Cluster(self.adaptor, **{"queued.max.messages.kbytes": 32 << 10}) as cluster:
            behind = _assign(cluster, at, chosen, {})  # partitions whose end was not reached yet
            looked = heard = time.monotonic()
            gathered = PieceBuffer(_PIECE)
            while not stopped():
                for got in cluster.consumer.consume(_ONCE, _WAIT):
                    error = got.error()
                    if error is None:
                        gathered.add(*message_of(got, self.adaptor.id, self.adaptor.decimals), size=len(got) + len(got.key() or b""))
                        at[got.topic()][str(got.partition())] = got.offset() + 1
                        if gathered.full:
                            yield gathered.piece(_copied(at))
                        heard = time.monotonic()  # after the yield: the caller may take long
                    elif error.code() == KafkaError._PARTITION_EOF:
                        behind.discard((got.topic(), got.partition()))
                    elif problem := _ending(error, got, at, cluster):
                        raise problem
                # An empty piece says that there is nothing new: not before each partition's end was reached once.
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
    """Assign the chosen partitions that are not in `known`, each at its offset in `at`. Returns them.

    Errors: `Differs` for a topic that was created anew since: its offsets mean other messages.
    """
    topics = cluster.topics(chosen)
    for name, id in cluster.identity(list(topics)).items():
        if at.setdefault(name, {_ID: id}).setdefault(_ID, id) != id:
            raise Differs(
                f"The topic {name} of Kafka at {cluster.where} was deleted and made anew since it was read.",
                hint="Read everything anew from its beginning with `headwater pipeline run FILE --again`.",
            )
    more = [(name, number) for name, numbers in topics.items() for number in numbers if str(number) not in known.get(name, {})]
    for name, number in more:
        at[name].setdefault(str(number), 0)
    if more:
        assigned = [TopicPartition(name, number, at[name][str(number)]) for name, number in more]
        try:
            cluster.consumer.incremental_assign(assigned)
        except KafkaException as error:
            raise explained(error.args[0], cluster.where, "reading") from None
    return set(more)


def _silent(behind: set[tuple[str, int]], cluster: Cluster) -> Unreachable:
    name, number = min(behind)
    more = f" and {len(behind) - 1} more" if len(behind) > 1 else ""
    return Unreachable(
        f"Kafka at {cluster.where} returns neither messages nor the end of {name}, partition {number}{more}.",
        hint="See whether the brokers run, and whether each partition has a leader.",
    )


def _ending(error: Any, got: Any, at: Cursor, cluster: Cluster) -> HeadwaterError | None:
    """The error that ends following; None for a temporary one: the client recovers when brokers come back."""
    if is_gone(error):
        topic, number = got.topic(), got.partition()
        return OffsetGone(
            f"Kafka has deleted messages of {topic}, partition {number}, that were not read yet: it no longer has offset "
            f"{at.get(topic, {}).get(str(number))}.",
            hint="Copy anew with `run --again`, and give the topic a longer retention.",
        )
    if is_final(error):
        return explained(error, cluster.where, f"reading {got.topic() or 'a topic'}")
    return None


def is_final(error: Any) -> bool:
    """Whether the client cannot recover from the error. Without a check, a missing right looks like a topic without messages."""
    return bool(error.name() in GONE or error.name() in DENIED or error.fatal())


def is_gone(error: Any) -> bool:
    return error.name() in ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE")


def _copied(at: Cursor) -> Cursor:
    return {name: dict(numbers) for name, numbers in at.items()}


def message_of(got: Any, ids: tuple[str, ...], decimals: Decimals = "decimal") -> tuple[Message, str]:
    """The message of a record, and its error, which may be empty. A value that is no JSON object is kept as text."""
    all_headers = dict(headers_of(got))
    headers = {name: value for name, value in all_headers.items() if value is not None}
    op, value = op_said(headers.get("op")), got.value()
    wrong = "The name of a header is not UTF-8, so that none of its headers can be read." if UNREADABLE in all_headers else ""
    if value is None:
        op, data = Op.DELETE, identified(got.key(), headers.get("data"), ids)
        wrong = wrong or ("" if data else "It has neither a value nor a key.")
    else:
        data, unreadable = decoded(value, decimals=decimals)
        wrong = unreadable or wrong
    if wrong:
        wrong = f"Offset {got.offset()} of {got.topic()}, partition {got.partition()}: {wrong}"
    kind, stamp = got.timestamp()
    return Message(got.topic(), data, op, stamp if kind else 0, Mode.SYNC, id_fields=ids), wrong
