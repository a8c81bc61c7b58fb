from __future__ import annotations

import pytest
from tests.unit.wal.conftest import TOPICS, OpenRegion

from headwater.log.embedded.log import EmbeddedLog
from headwater.log.epochs import CLAIM, EPOCH, Epochs, epoch_at, mark
from headwater.log.record import Record
from headwater.wal.events import event_of
from headwater.wal.layout import EMPTY, RecordKind, encode_key

pytestmark = pytest.mark.anyio


async def test_every_kind_of_record_is_an_event(log: EmbeddedLog, opened: OpenRegion) -> None:
    region = await opened()
    await region.write(1, [b"a", b"b", b"c"])
    await region.mark_delete_up_to(1, 1)
    await region.move(1)
    await region.drop_table(1)
    events = [event_of(record, Epochs()) for record in log.read(TOPICS.data, 0, 0)]
    assert [event and (event.kind, event.offset, event.table, event.first, event.last) for event in events] == [
        ("write", 0, 1, 1, 3),
        ("mark", 1, 1, None, 1),
        ("move", 2, 1, 2, 3),
        ("drop", 3, 1, None, 3),
    ]
    assert all(event is not None and event.time is not None for event in events)


def test_what_does_not_count_is_no_event() -> None:
    entry, epochs, mine = encode_key(RecordKind.ENTRY, 7, 1, 1), Epochs(), mark(epoch_at(5, ""))
    records = [
        Record(None, None, ((CLAIM, mine),), offset=5),
        Record(entry, EMPTY, ((EPOCH, mine),), offset=6),
        Record(entry, EMPTY, ((EPOCH, mark(epoch_at(1, ""))),), offset=7),  # of an owner before
        Record(entry, EMPTY, offset=8),  # of nobody
        Record(b"short", EMPTY, ((EPOCH, mine),), offset=9),
        Record(entry, b"\x09", ((EPOCH, mine),), offset=10),
    ]
    assert [event_of(record, epochs) is not None for record in records] == [False, True, False, False, False, False]
