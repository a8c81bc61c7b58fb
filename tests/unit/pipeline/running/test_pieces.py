"""Pieces of a source in the log: each with the position behind it, which a restart reads back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from headwater.core.errors import Fenced, OutcomeUnknown, Unreachable
from headwater.log import Log
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Mode, Record
from headwater.pipeline.adaptor import About
from headwater.pipeline.id_hash import id_hash
from headwater.pipeline.message import Message, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.running.pieces import FOLLOWING, CopyWork, append, complete_records, copy_slice, copy_slices, progress_in
from headwater.pipeline.running.work import CopyProgress
from headwater.pipeline.source_adaptor import CanCopy, CopyPlan, Piece, Slice


class Numbers(CanCopy, frozen=True, kw_only=True):
    """Slices of ten numbers, two a piece."""

    kind: ClassVar[str] = "numbers"
    about: ClassVar[About] = About(summary="", namespace="", sample="")
    path: str = "x"

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        return CopyPlan(identity={}, slices=tuple(Slice("t", {"first": 10 * n}) for n in range(slices)))

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        first = part.spec["first"]
        for n in range(position or first, first + 10, 2):
            yield Piece(position=n + 2, values=[b'{"_id":%d}' % n, b'{"_id":%d}' % (n + 1)])


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("t")
        yield log


def work(log: Log, **changed: Any) -> CopyWork:
    plan = Numbers().plan(Namespaces(), 3)
    fields: dict[str, Any] = {"progress": {}, "since": 0, "most": 1 << 20, "epoch": log.epoch("t", 0), **changed}
    slices = dict(enumerate(plan.slices))
    return CopyWork(pipeline="p", topic="t", adaptor=Numbers(), slices=slices, copy="c", ids={}, **fields)


def numbers(log: Log) -> list[int]:
    import json

    return [json.loads(one.value or b"")["_id"] for one in log.read("t", 0, 0)]


def test_slices_are_read_until_the_round_s_share_is_read(log: Log) -> None:
    log.claim("t", 0)
    done = copy_slices(log, work(log, most=40), 0, [0, 2])
    assert [(one.slice, one.finished, one.position) for one in done] == [(0, False, 6)]
    assert progress_in(log, "t", 0, "c") == {0: CopyProgress("c", 0, 6, 6)}
    done = copy_slices(log, work(log, progress={0: CopyProgress("c", 0, 6, 6)}, since=6), 0, [0, 2])
    assert [(one.slice, one.finished, one.records, one.amount) for one in done] == [(0, True, 4, 10), (2, True, 10, 10)]
    assert sorted(numbers(log)) == [*range(10), *range(20, 30)]


def test_a_second_attempt_goes_on_where_the_first_one_s_records_end(log: Log) -> None:
    log.claim("t", 0)
    copy_slices(log, work(log, most=40), 0, [0])  # and it dies before it can tell
    [done] = copy_slices(log, work(log), 0, [0])
    assert numbers(log) == list(range(10))
    assert (done.records, done.amount) == (4, 10)  # what the first one has read counts, too


class Lending(EmbeddedLog):
    """Says that it is Kafka: its tasks' records count by their offsets."""

    engine = "kafka"


class Failing(Numbers, frozen=True, kw_only=True):
    """Fails at a number."""

    at: int
    error: type[Exception] = Unreachable

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        for piece in super().read(part, position):
            if piece.position > self.at:
                raise self.error("gone", hint="")
            yield piece


@pytest.fixture
def lending(tmp_path: Path) -> Iterator[Log]:
    with Lending(tmp_path / "kafka") as log:
        log.create_topic("t")
        log.claim("t", 0)
        yield log


def test_on_kafka_every_attempt_begins_where_the_round_began_and_says_which_records_are_its_own(lending: Log) -> None:
    [first] = copy_slices(lending, work(lending, most=40), 0, [0])
    [second] = copy_slices(lending, work(lending), 0, [0])
    assert (first.offsets, first.position) == (((0, 6),), 6)
    assert (second.offsets, second.records, second.finished) == (((6, 16),), 10, True)
    assert numbers(lending) == [*range(6), *range(10)]


def test_on_kafka_what_was_read_before_the_source_failed_is_a_result(lending: Log) -> None:
    [done] = copy_slices(lending, msgspec.structs.replace(work(lending), adaptor=Failing(at=4)), 0, [0, 1])
    assert (done.records, done.position, done.offsets, done.finished) == (4, 4, ((0, 4),), False)
    assert done.away is not None
    assert isinstance(done.away.error(), Unreachable)
    [done] = copy_slices(lending, msgspec.structs.replace(work(lending), adaptor=Failing(at=0)), 0, [0, 1])
    assert (done.records, done.position, done.away is None) == (0, None, False)
    with pytest.raises(OutcomeUnknown):  # Spark tries again
        copy_slices(lending, msgspec.structs.replace(work(lending), adaptor=Failing(at=0, error=OutcomeUnknown)), 0, [0])


def test_on_kafka_a_round_ends_by_time_and_later_where_the_source_was_slow_to_begin(lending: Log) -> None:
    times = iter([0.0, 0.0, 1.0, *[4.9] * 3, 100.0, 100.0, 100.0])
    [done] = copy_slices(lending, work(lending, seconds=2), 0, [0, 1], monotonic=lambda: next(times))
    assert (done.records, done.finished) == (8, False)  # the first piece came after a second: the round lasts four more behind it


def test_an_older_run_s_task_appends_nothing(log: Log) -> None:
    log.claim("t", 0)
    old = work(log)
    log.claim("t", 0)
    with pytest.raises(Fenced):
        copy_slices(log, old, 0, [0])
    assert numbers(log) == []


def test_positions_of_another_copy_do_not_count(log: Log) -> None:
    writer = log.claim("t", 0)
    append(writer, Piece(position=3, values=[b"{}"]), "t", CopyProgress("old", 0, 3), ids={})
    append(writer, Piece(position=[7], messages=[Message("t", {"_id": 1})]), "", CopyProgress("c", FOLLOWING, [7]), ids={})
    assert progress_in(log, "t", 0, "c") == {FOLLOWING: CopyProgress("c", FOLLOWING, [7])}
    assert progress_in(log, "t", 2, "c") == {}
    assert append(writer, Piece(position=9), "t", CopyProgress("c", 0, 9), ids={}) == (0, 0)
    assert log.bounds("t", 0).end == 2


def test_progress_that_tells_no_amount_is_understood(log: Log) -> None:
    log.append("t", 0, [Record(b"t", b"{}", (("progress", b'["c",0,7]'),))])
    assert progress_in(log, "t", 0, "c") == {0: CopyProgress("c", 0, 7, 0)}


class Measured(Numbers, frozen=True, kw_only=True):
    """The same, measured by its source: a hundred for each slice, of which a piece may tell too much, and the last one too little."""

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        for piece, amount in zip(super().read(part, position), (20, 140, 60, 70, 80), strict=True):
            yield msgspec.structs.replace(piece, amount=amount)


@pytest.mark.parametrize(("size", "amounts"), [(100, [20, 100, 60, 100]), (None, [20, 140, 60, 80])])
def test_a_finished_slice_is_read_whole_and_never_more_than_whole(log: Log, size: int | None, amounts: list[int]) -> None:
    writer = log.claim("t", 0)
    part = Slice("t", {"first": 0}, size)
    made = msgspec.structs.replace(work(log), adaptor=Measured(), slices={0: part})
    pieces = made.adaptor.read(part, None)
    at, found = CopyProgress("c", 0), []
    for most in (1, 1, 1, 1 << 20):
        done = copy_slice(made, at, writer, pieces, most=most)
        at = CopyProgress("c", 0, done.position, done.amount)
        found.append(done.amount)
    assert done.finished
    assert found == amounts


def test_a_change_carries_the_hash_of_its_id_and_fields_that_the_plan_does_not_know(log: Log) -> None:
    writer = log.claim("t", 0)
    known, new = Message("t", {"_id": 1}, Op.UPDATE), Message("u", {"a": 1, "b": 2}, id_fields=("a", "b"))
    append(writer, Piece(position=1, messages=[known, new]), "", CopyProgress("c", FOLLOWING, 1), ids={}, mode=Mode.SYNC)
    first, second = log.read("t", 0, 0)
    assert (first.mode, first.op) == (Mode.SYNC, Op.UPDATE)
    assert dict(first.headers) == {"hash": id_hash(1).to_bytes(4, "big")}
    assert {name: value for name, value in second.headers if name != "progress"} == {
        "hash": id_hash([1, 2]).to_bytes(4, "big"),
        "ids": b'["a","b"]',
    }


def test_a_complete_copy_is_marked_for_each_namespace() -> None:
    marks = complete_records(["a", "b"])
    assert [(one.key, one.mode, one.op) for one in marks] == [(b"a", Mode.COMPLETE, Op.NOOP), (b"b", Mode.COMPLETE, Op.NOOP)]


@pytest.mark.parametrize("texts", [[b'{"_id":1}', b'{"x":"' + b"y" * 500 + b'"}', b'{"_id":3}'], [b'{"x":"' + b"y" * 500 + b'"}']])
def test_a_document_that_is_longer_than_a_record_becomes_one_that_could_not_be_read(log: Log, texts: list[bytes]) -> None:
    log.create_topic("t")
    writer = log.claim("t", 0)
    assert append(writer, Piece(position=5, values=texts), "in", CopyProgress("c", 0, 5), ids={}, longest=100)[0] == len(texts)
    records = log.read("t", 0, 0)
    bad = [dict(one.headers)["unreadable"] for one in records if "unreadable" in dict(one.headers)]
    assert len(bad) == 1
    assert b"508 bytes" in (bad[0] or b"")
    assert "progress" in dict(records[-1].headers)
