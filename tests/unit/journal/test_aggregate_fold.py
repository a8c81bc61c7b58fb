from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headwater.core.errors import BadInput, Conflict, UnknownEvent
from headwater.journal.aggregate_fold import Aggregate, AggregateFold, AskEvents, AskHead, AskSnapshot, applies, handlers, pending_payloads
from headwater.journal.event import EventRecord
from headwater.journal.event_versions import NO_UPCASTERS
from headwater.journal.snapshot_shown import SnapshotRecord


class Added(msgspec.Struct, frozen=True):
    n: int


class Counter(Aggregate):
    total: int = 0

    @applies(Added)
    def _added(self, event: Added) -> None:
        self.total += event.n


class Head(msgspec.Struct):
    delete_to: int = 0
    record_id: str | None = "life"


def event(seq_nr: int, n: int = 1) -> EventRecord:
    return EventRecord(seq_nr, {"type": "Added", "version": 1, "n": n}, (), 0, 0, 0)


def snapshot(seq_nr: int, total: int, version: int = 1, life: str = "life") -> SnapshotRecord:
    return SnapshotRecord(seq_nr, {"aggregate": "Counter", "version": version, "state": {"total": total}}, 0, record_id=life)


def load(events: list[EventRecord], snapshots: list[SnapshotRecord], heads: list[Head | None]) -> Counter:
    """Answer what a load asks. `heads`: the answers about the head, the last of which stays."""
    loading, answer = AggregateFold(Counter, NO_UPCASTERS, 0).loading("a"), None
    while True:
        try:
            question = loading.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        match question:
            case AskSnapshot(most=most):
                answer: Any = next((one for one in snapshots if most is None or one.seq_nr <= most), None)
            case AskEvents(start=start, each=each):
                answer = None
                for one in events:
                    if one.seq_nr >= start:
                        each(one)
            case AskHead():
                answer = heads.pop(0) if len(heads) > 1 else heads[0]


def test_a_new_aggregate_has_no_events() -> None:
    found = load([], [], [None])
    assert (found.id, found.seq_nr, found.pending, found.total) == ("a", 0, (), 0)


def test_a_snapshot_and_the_events_behind_it_make_the_state() -> None:
    found = load([event(1), event(2), event(3)], [snapshot(2, 2)], [Head()])
    assert (found.seq_nr, found.total) == (3, 3)
    assert load([event(3)], [snapshot(2, 2)], [Head(delete_to=2)]).total == 3
    assert load([], [snapshot(2, 2)], [Head(delete_to=2)]).seq_nr == 2


def test_a_snapshot_of_another_version_or_form_is_left_out() -> None:
    for other in (
        snapshot(3, 7, version=2),
        SnapshotRecord(3, b"x", 0),
        SnapshotRecord(3, {"aggregate": "Counter", "version": 1, "state": 5}, 0),
    ):
        found = load([event(1), event(2), event(3)], [other, snapshot(1, 1)], [Head()])
        assert (found.seq_nr, found.total) == (3, 3)
        assert load([event(1)], [other], [Head()]).total == 1
    with pytest.raises(UnknownEvent, match="'a' are none of Counter in version 1, and its events up to 3 are deleted"):
        load([event(4)], [snapshot(3, 7, version=2)], [Head(delete_to=3)])


def test_a_journal_whose_beginning_is_deleted_without_a_snapshot_began_anew_there() -> None:
    assert load([event(5)], [], [Head(delete_to=4)]).total == 1
    found = load([], [], [Head(delete_to=4)])
    assert (found.seq_nr, found.total) == (4, 0)
    beyond = load([event(5)], [snapshot(2, 2)], [Head(delete_to=4)])
    assert (beyond.seq_nr, beyond.total) == (5, 1)


def test_a_journal_that_is_purged_while_it_is_loaded_is_loaded_again() -> None:
    found = load([event(1), event(2), event(3, 10)], [snapshot(2, 2)], [Head(record_id="other"), Head()])
    assert found.total == 12
    with pytest.raises(Conflict, match="purged while"):
        load([event(3)], [snapshot(2, 2)], [None])


def test_an_event_of_an_unknown_type_names_type_and_id() -> None:
    with pytest.raises(UnknownEvent, match="Event 1 of journal 'a' has the type 'Gone', which Counter"):
        load([EventRecord(1, {"type": "Gone"}, (), 0, 0, 0)], [], [None])


def test_recorded_events_are_applied_and_kept() -> None:
    counter = AggregateFold(Counter, NO_UPCASTERS, 2).new("a")
    counter.record(Added(1), Added(2))
    assert (counter.total, counter.pending) == (3, (Added(1), Added(2)))
    assert pending_payloads(counter) == [{"type": "Added", "version": 1, "n": n} for n in (1, 2)]

    class Other(msgspec.Struct):
        pass

    for wrong in (Other(), {"n": 1}, 5):
        with pytest.raises(BadInput, match="applies no event"):
            counter.record(wrong)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="has no id"):
        pending_payloads(Counter())


def test_a_snapshot_is_due_so_many_events_after_the_last() -> None:
    fold = AggregateFold(Counter, NO_UPCASTERS, 3)
    counter = fold.new("a")
    assert not fold.saved(counter, 2)
    assert fold.saved(counter, 3)
    assert fold.saved(counter, 4)  # the one before has failed
    fold.snapshot_saved(counter)
    assert not fold.saved(counter, 6)
    assert fold.snapshot(counter) == {"aggregate": "Counter", "version": 1, "state": {"total": 0}}
    assert not AggregateFold(Counter, NO_UPCASTERS, 0).saved(counter, 100)


def test_classes_that_are_no_aggregates_are_refused() -> None:
    class Needy(Aggregate):
        total: int

    class Twice(Aggregate):
        @applies(Added)
        def _one(self, event: Added) -> None: ...

        @applies(Added)
        def _two(self, event: Added) -> None: ...

    for wrong in (Needy, Twice, dict, 5):
        with pytest.raises(BadInput):
            AggregateFold(wrong, NO_UPCASTERS, 0)  # type: ignore[type-var]
    for every in (-1, 1.5, True):
        with pytest.raises(BadInput):
            AggregateFold(Counter, NO_UPCASTERS, every)  # type: ignore[arg-type]
    assert set(handlers(Counter)) == {"Added"}
