from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.documents.ground import draft

from headwater.core.errors import Unavailable
from headwater.documents.commit import Outcome, PlannedCommit, replayed
from headwater.documents.decisions import Moment
from headwater.documents.draft_body import read_draft
from headwater.documents.empty_view import EmptyView
from headwater.documents.idempotency import KEY, WriteKeys
from headwater.documents.overlaid_view import OverlaidView
from headwater.documents.write import WrittenDocument
from headwater.log.embedded.log import EmbeddedLog


@pytest.fixture
def log(tmp_path: Path) -> Any:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("t", partitions=1)
        yield log


def planned(log: EmbeddedLog, *, kafka: bool = False) -> PlannedCommit:
    keys = WriteKeys(log, "t", 0, now=lambda: 0)
    return PlannedCommit(OverlaidView(EmptyView()), 3, end=0, moment=Moment(5, lambda: "0" * 32), keys=keys, max_record=10_000, kafka=kafka)


def test_each_call_sees_those_before_it(log: EmbeddedLog) -> None:
    plan = planned(log)
    for one in (draft("put", "a", 1), draft("delete", "b"), draft("patch", "a", 2), draft("put", "a", "x" * 20_000), draft("delete", "a")):
        plan.add(read_draft(one))
    assert [decided.record.changes[0].revision for decided in plan.decided] == [1, 2, 3]
    plan.accepted([7, 8], applied=False)
    plan.refused(Unavailable("no"), 2)
    told = [(one.revision, one.offset, one.applied) if isinstance(one, WrittenDocument) else type(one).__name__ for one in plan.answers()]
    assert told == [(1, 7, False), "DocumentNotFound", (2, 8, False), "TooLarge", "Unavailable"]


def test_a_call_that_repeats_another_of_its_commit_has_its_outcome(log: EmbeddedLog) -> None:
    plan = planned(log)
    for key in ("k", "k", "l"):
        plan.add(read_draft(draft("post", "c~", {}, key=key)))
    plan.add(read_draft(draft("post", "c~", {"n": 1}, key="k")))
    assert len(plan.records) == 2
    plan.accepted([0, 1], applied=True)
    first, same, other, reused = plan.answers()
    assert same == replayed(first)
    assert isinstance(other, WrittenDocument)
    assert type(reused).__name__ == "KeyReused"
    assert dict(plan.records[0].headers)[KEY] == b"k"


def test_the_records_at_the_end_are_known_again(log: EmbeddedLog) -> None:
    plan = planned(log)
    for number in range(3):
        plan.add(read_draft(draft("put", "a", number)))
    there = plan.appended([4, 5, 6])
    assert plan.offsets_of(there) == [4, 5, 6]
    assert plan.offsets_of(there[:2]) == [4, 5]
    assert plan.offsets_of(there[1:]) == []
    assert plan.offsets_of([there[0], there[1]._replace(time=6), there[2]]) == [4]


def test_kafka_consumers_read_headers(log: EmbeddedLog) -> None:
    plan = planned(log, kafka=True)
    plan.add(read_draft(draft("put", "c~/1", {})))
    assert dict(plan.records[0].headers) == {"uri": b"c~/1", "method": b"feed:put", "revision": b"1"}
    assert not plan.full


def test_only_writes_are_marked_as_replayed() -> None:
    outcomes: list[Outcome] = [None, 3, Unavailable("no")]
    assert [replayed(one) for one in outcomes] == outcomes
