"""What a range changes travels between processes: it survives pickling and JSON of its numbers."""

from __future__ import annotations

import pickle
import uuid

from headwater.journal.change import EventRow, JournalChange, PartitionChange, Pointer
from headwater.journal.event import Payload, PayloadKind
from headwater.journal.head import Expiry, FirstAppend, HeadFold


def test_a_change_survives_pickling() -> None:
    row = EventRow(1, 2, 0, 4, "host", "0.1", uuid.UUID(int=7), ("a", "b"), '{"header":{}}', Payload(PayloadKind.TEXT, b"x"), (("k", "v"),))
    fold = HeadFold(purged=1, first=FirstAppend(2, 1, 3), seq_nr=1, offset=2, timestamp=3, expiry=Expiry(60_000, 3))
    change = PartitionChange("journal-bank", 0, "g", 0, 5, (JournalChange("alice", fold, (row,)),), 3, 9)
    assert pickle.loads(pickle.dumps(change)) == change


def test_a_pointer_begins_before_the_first_record() -> None:
    assert Pointer(-1) == Pointer(offset=-1, created=0, updated=0, generation="", epoch=0)
