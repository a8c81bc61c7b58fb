"""Journals as a source: messages of events, positions, and what is told."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.unit.journal.ground import POISON, TOPIC, Ground, appended, deleted, ground_at, purged

from headwater.adaptors.journal.source import JournalSource
from headwater.core.errors import BadConfig, Differs, NotFound, OffsetGone, UnknownJournal
from headwater.journal.action import Append, PayloadMetadata
from headwater.journal.control import ControlLog
from headwater.journal.dead import quarantine
from headwater.journal.event import NumberedEvent, Payload, PayloadKind
from headwater.journal.event_bodies import encode_events
from headwater.journal.wire import write_record
from headwater.pipeline.adaptors import journal
from headwater.pipeline.message import Message
from headwater.pipeline.namespaces import Namespaces

ALL = Namespaces()


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[Ground]:
    with ground_at(tmp_path / "data") as ground:
        ground.topic()
        yield ground


def source(ground: Ground, **options: Any) -> JournalSource:
    return JournalSource(journal("bank", address=str(ground.data), **options))


def copied(reading: JournalSource, chosen: Namespaces = ALL) -> list[Message]:
    plan = reading.plan(chosen, 4)
    return [message for part in plan.slices for piece in reading.read(part, None) for message in piece.messages]


def followed(reading: JournalSource, cursor: Any, chosen: Namespaces = ALL) -> tuple[list[Message], Any]:
    """What is there behind a cursor, and the position behind that."""
    found: list[Message] = []
    for piece in reading.follow(cursor, chosen, lambda: False):
        found += piece.messages
        cursor = piece.position
        if not piece.messages:
            break
    return found, cursor


def test_an_event_is_a_document(bank: Ground) -> None:
    events = [
        NumberedEvent(1, Payload(PayloadKind.JSON, b'{"eur": 1.50}'), ("t", "u")),
        NumberedEvent(2, Payload(PayloadKind.BINARY, b"\xff"), ()),
        NumberedEvent(3, None, ()),
        NumberedEvent(4, Payload(PayloadKind.JSON, b"[1, null]"), ()),
    ]
    payload_type, value = encode_events(events, PayloadMetadata(None))
    bank.append(write_record("alice", Append(1, 4, payload_type, "here"), value=value, timestamp=86_400_000))
    found = copied(source(bank))
    assert [message.id for message in found] == [["alice", number] for number in (1, 2, 3, 4)]
    binary = {"$binary": {"base64": "/w==", "subType": "00"}}
    assert [message.data["payload"] for message in found] == [{"eur": Decimal("1.50")}, binary, None, [1, None]]
    first = found[0]
    assert (first.namespace, first.timestamp, first.data["tags"], first.data["origin"]) == ("bank", 86_400_000, ["t", "u"], "here")
    assert first.data["timestamp"] == {"$date": "1970-01-02T00:00:00.000Z"}
    assert copied(source(bank, decimals="float"))[0].data["payload"] == {"eur": 1.5}
    assert [message.data["seq_nr"] for message in copied(source(bank, tags=["u"]))] == [1]


def test_every_number_is_a_float_or_the_event_is_refused(bank: Ground) -> None:
    texts = [b"1.5", b"[1.5]", b'{"a": 1.5, "b": 1e999}', b'{"a": 1.5}']
    events = [NumberedEvent(n, Payload(PayloadKind.JSON, text), ()) for n, text in enumerate(texts, 1)]
    payload_type, value = encode_events(events, PayloadMetadata(None))
    bank.append(write_record("alice", Append(1, 4, payload_type, "here"), value=value, timestamp=0))
    reading = source(bank, decimals="float")
    (part,) = reading.plan(ALL, 4).slices
    (piece,) = reading.read(part, None)
    payloads = [message.data["payload"] for message in piece.messages]
    assert repr(payloads) == "[1.5, [1.5], {'a': Decimal('1.5'), 'b': Decimal('1E+999')}, {'a': 1.5}]"
    assert piece.bad == {2: "Event 3 of alice: The number 1e999 is beyond the largest float."}


def test_following_begins_behind_the_copy(bank: Ground) -> None:
    bank.append(appended("a", 1, 2), deleted("a", 1), purged("b"))
    reading = source(bank)
    plan = reading.plan(ALL, 4)
    bank.append(appended("b", 1))
    bank.append(appended("a", 3), partition=1)
    assert [message.id for message in copied(reading)][:2] == [["a", 1], ["a", 2]]
    found, cursor = followed(reading, plan.cursor)
    assert sorted(message.id for message in found) == [["a", 3], ["b", 1]]
    bank.append(appended("c", 1))
    assert [message.id for message in followed(reading, cursor)[0]] == [["c", 1]]


def test_the_journal_may_be_the_namespace(bank: Ground) -> None:
    bank.append(appended("a", 1, 2), appended("b", 1))
    found = copied(source(bank, namespace="id"))
    assert [(message.namespace, message.id) for message in found] == [("a", 1), ("a", 2), ("b", 1)]
    assert [message.namespace for message in copied(source(bank, namespace="id"), Namespaces("b"))] == ["b"]


def test_what_cannot_be_decoded_is_poison_until_it_is_quarantined(bank: Ground) -> None:
    bank.append(appended("a", 1), POISON, appended("a", 2))
    reading = source(bank)
    (part,) = reading.plan(ALL, 1).slices
    (piece,) = list(reading.read(part, None))
    assert list(piece.bad) == [1]
    assert piece.messages[1].data["offset"] == 1
    topic = bank.topic()
    quarantine(bank.log, topic, 0, 1, why="test")
    assert ControlLog(bank.log, TOPIC).look()
    assert [message.data["seq_nr"] for message in copied(reading)] == [1, 2]


def test_what_is_told(bank: Ground, tmp_path: Path) -> None:
    reading = source(bank)
    bank.append(appended("a", 1), appended("a", 2))
    plan = reading.plan(ALL, 1)
    assert reading.same(plan, ALL)
    assert "2 partitions, 2 offsets" in reading.check(ALL)[0]
    with pytest.raises(NotFound, match="does not match"):
        reading.check(Namespaces("other"))
    with pytest.raises(UnknownJournal, match="no topic bnak"):
        JournalSource(journal("bnak", address=str(bank.data))).check(ALL)
    with pytest.raises(NotFound, match="no data directory"):
        JournalSource(journal("bank", address=str(tmp_path / "none"))).check(ALL)
    for bad in ({"topic": "no/topic"}, {"topic": "bank", "namespace": "x"}):
        with pytest.raises(BadConfig):
            journal(**bad)
    bank.log.delete_before(TOPIC, 0, 1, part="journal")
    with pytest.raises(OffsetGone, match="begins at offset 1"):
        reading.plan(ALL, 1)
    assert [message.data["seq_nr"] for message in copied(source(bank, kept=True))] == [2]
    with pytest.raises(OffsetGone, match="deleted before the pipeline read them"):
        followed(reading, {"generation": plan.identity["generation"], "at": {}})
    bank.log.delete_topic(TOPIC, part="journal")
    bank.topic()
    assert not reading.same(plan, ALL)
    with pytest.raises(Differs, match="made anew"):
        followed(reading, plan.cursor)
