from __future__ import annotations

import msgspec
from tests.unit.journal.ground import Ground

from headwater.journal.event import Payload, PayloadKind
from headwater.journal.snapshot_fold import fold_snapshots, records_of
from headwater.journal.snapshot_wire import HEADER, JournalLife, save_record
from headwater.log.record import Record

LIFE = JournalLife("g1", None, 1)
POISON = Record(b"a", b"x", ((HEADER, b"{no"),), 5, offset=2)


def saves(*ids: str) -> list[Record]:
    payload = Payload(PayloadKind.JSON, b"1")
    return [
        msgspec.structs.replace(save_record(id, 1, payload, LIFE, timestamp=4 + offset), offset=offset) for offset, id in enumerate(ids)
    ]


def test_actions_are_kept_by_journal_in_their_order() -> None:
    folded = fold_snapshots(topic="t", partition=1, generation="s1:g1", start=0, end=9, records=saves("a", "b", "a"))
    change = folded.change
    assert folded.poison is None
    assert (change.start, change.end, change.timestamp, change.generation) == (0, 9, 6, "s1:g1")
    assert {one.id: [action.offset for action in one.actions] for one in change.journals} == {"a": [0, 2], "b": [1]}


def test_poison_ends_the_range_before_it_unless_it_is_left_out() -> None:
    records = [*saves("a", "b"), POISON]
    folded = fold_snapshots(topic="t", partition=0, generation="s1:g1", start=0, end=3, records=records)
    assert folded.poison is not None
    assert (folded.poison.offset, folded.change.end, len(folded.change.journals)) == (2, 2, 2)
    skipped = fold_snapshots(topic="t", partition=0, generation="s1:g1", start=0, end=3, records=records, skip=(2,))
    assert (skipped.poison, skipped.change.end) == (None, 3)


def test_scanned_batches_are_the_same_records(ground: Ground) -> None:
    ground.topic("journal-x", partitions=1)
    ground.append(*saves("a", "b"), topic="journal-x")
    read = ground.log.read("journal-x", 0, 0)
    assert list(records_of(ground.log.scan("journal-x", 0, 0))) == read
