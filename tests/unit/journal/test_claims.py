"""Which topics of journals have claims."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headwater.journal.claims import epochs_from, has_claims
from headwater.log.epochs import CLAIM, EPOCH, mark
from headwater.log.record import Record

_CLAIM = Record(None, None, ((CLAIM, mark(1 << 16)),), offset=3)
_MARKED = Record(b"a", b"x", ((EPOCH, mark(2 << 16)),), offset=4)
_PLAIN = Record(b"a", b"x", (("journal.action", b"{}"),), offset=5)


def test_where_there_are_claims_a_record_without_one_counts_until_the_first() -> None:
    epochs = epochs_from(0, claimed=True)
    assert [epochs.admits(record) for record in (_PLAIN, _CLAIM, _MARKED, _PLAIN)] == [True, False, True, False]
    assert epochs.epoch == 2 << 16


def test_where_there_are_none_every_record_counts() -> None:
    epochs = epochs_from(7, claimed=False)
    assert [epochs.admits(record) for record in (_CLAIM, _MARKED, _PLAIN)] == [True, True, True]
    assert epochs.epoch == 0


@pytest.mark.parametrize(("engine", "owner", "claimed"), [("embedded", "journal", False), ("kafka", "journal", True), ("kafka", "", False)])
def test_only_topics_of_ours_on_kafka_have_claims(engine: str, owner: str, claimed: bool) -> None:
    topic = SimpleNamespace(settings=SimpleNamespace(owner=owner))
    log: Any = SimpleNamespace(engine=engine, topic=lambda name: topic)
    given: Any = topic
    assert has_claims(log, given) is claimed
    assert has_claims(log, "journal-bank") is claimed
