"""A batch of calls as records. What a writer does with them is tested with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.unit.journal.partitions import TOPIC, Ground

from headwater.core.errors import TooLarge, WrongExpected
from headwater.journal.append_draft import draft, plain_draft
from headwater.journal.event import Event
from headwater.journal.idempotency import KeyIndex
from headwater.journal.last_numbers import LastNumbers
from headwater.journal.numbering import BatchNumbering
from headwater.journal.open_topic import PlainJournalLog
from headwater.journal.topics import PART
from headwater.journal.write import ALWAYS, Condition, DeleteDraft, MarkDraft, PurgeDraft


def test_calls_of_a_batch_follow_each_other(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    log = PlainJournalLog(ground.partition, exact=True, part=PART)
    lasts: LastNumbers[Any] = LastNumbers(log.last_number, arrived=lambda: None, most=9)
    lasts.known["a"] = 3
    keys = KeyIndex(ground.log, TOPIC, 0, now=lambda: 0)
    numbering = BatchNumbering(log, lasts, keys, by=("host", "1"), max_record=1000, sealing=None)
    calls: list[Any] = [
        (plain_draft("a", 1), ALWAYS, None),
        (plain_draft("a", 1), Condition(3), None),
        (plain_draft("a", 1), Condition(4, "k", "d"), None),
        (plain_draft("a", 1), Condition(None, "k", "d"), None),
        (draft("b", [Event(1, 7)]), ALWAYS, None),
        (DeleteDraft("a", 9), ALWAYS, None),
        (plain_draft("a", "x" * 2000), ALWAYS, None),
        (plain_draft("a", "x" * 500), Condition(None, "k" * 400, "d"), None),
        (MarkDraft("a", "m"), ALWAYS, None),
        (PurgeDraft("none"), ALWAYS, None),
        (PurgeDraft("a"), ALWAYS, None),
    ]
    batch = numbering.number(calls, 0, sealed=False)
    assert batch.placed == [(0, 4, 4), (2, 5, 5), (4, 7, 7), (5, 0, 5), (8, 0, 0), (10, 0, 0)]
    assert batch.same == [(3, 2)]
    assert batch.changed == {"a": 0, "b": -8, "none": 0}
    assert [type(one) for one in batch.outcomes if one is not None] == [WrongExpected, TooLarge, TooLarge]
    assert [record.key for record in batch.records] == [b"a", b"a", b"b", b"a", b"a", b"a"]
    ground.close()
