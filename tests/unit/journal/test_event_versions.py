from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, ClassVar

import msgspec
import pytest

from headwater.core.errors import BadInput, UnknownEvent
from headwater.journal.event import EventRecord
from headwater.journal.event_versions import Upcasters, event_type, event_version, read_event, write_event


class Deposited(msgspec.Struct, frozen=True):
    event_version: ClassVar[int] = 3

    cents: int
    at: datetime | None = None
    rate: Decimal = Decimal("1")


class Opened(msgspec.Struct, frozen=True, tag="opened", rename="camel", omit_defaults=True):
    owner_name: str = ""


def record(payload: Any, seq_nr: int = 4) -> EventRecord:
    return EventRecord(seq_nr, payload, (), 0, 0, 0)


def test_an_event_is_written_with_its_type_and_version_and_read_again() -> None:
    deposited = Deposited(5, datetime(2026, 1, 2, tzinfo=UTC), Decimal("1.10"))
    written = write_event(deposited)
    assert written == {"type": "Deposited", "version": 3, "cents": 5, "at": "2026-01-02T00:00:00Z", "rate": "1.10"}
    said, version, fields = Upcasters().upcast("a", record(written))
    assert read_event(Deposited, version, fields, "a", 4) == deposited
    assert said == event_type(Deposited)
    opened = write_event(Opened("Al"))
    assert opened == {"type": "opened", "version": 1, "ownerName": "Al"}
    assert read_event(Opened, 1, {"ownerName": "Al"}, "a", 1) == Opened("Al")


def test_upcasters_are_applied_in_a_chain_and_may_rename() -> None:
    upcasters = Upcasters()

    @upcasters.of("deposit", 1, becomes="Deposited")
    def renamed(fields: dict[str, Any]) -> dict[str, Any]:
        return {"eur": fields["amount"]}

    @upcasters.of("Deposited", 2)
    def cents(fields: dict[str, Any]) -> dict[str, Any]:
        return {"cents": fields["eur"] * 100}

    assert upcasters.upcast("a", record({"type": "deposit", "amount": 3})) == ("Deposited", 3, {"cents": 300})
    assert upcasters.upcast("a", record({"type": "Deposited", "version": 3, "cents": 1})) == ("Deposited", 3, {"cents": 1})
    with pytest.raises(BadInput, match="two upcasters"):
        upcasters.of("Deposited", 2)(cents)
    with pytest.raises(BadInput, match="no version"):
        upcasters.of("Deposited", 0)
    with pytest.raises(UnknownEvent, match="journal 'a', of the type 'deposit': its upcaster from version 1 fails: KeyError"):
        upcasters.upcast("a", record({"type": "deposit"}))


@pytest.mark.parametrize(
    "payload", [None, 5, "text", b"x", [], {}, {"type": 5}, {"type": "x", "version": 0}, {"type": "x", "version": True}]
)
def test_what_is_no_event_is_named(payload: Any) -> None:
    with pytest.raises(UnknownEvent, match="Event 4 of journal 'a'"):
        Upcasters().upcast("a", record(payload))


@pytest.mark.parametrize(
    ("version", "fields", "says"),
    [
        (4, {}, "this program knows 3"),
        (2, {}, "no upcaster brings it to 3"),
        (3, {"cents": "x"}, "does not fit Deposited"),
        (3, {}, "missing required field"),
    ],
)
def test_other_versions_and_fields_are_named_with_type_and_id(version: int, fields: dict[str, Any], says: str) -> None:
    with pytest.raises(UnknownEvent, match=says) as raised:
        read_event(Deposited, version, fields, "alice", 9)
    assert "'alice'" in raised.value.message
    assert "'Deposited'" in raised.value.message


def test_structs_that_can_be_no_events_are_refused() -> None:
    class Listed(msgspec.Struct, array_like=True):
        eur: int

    class Clashing(msgspec.Struct):
        version: int

    class Old(msgspec.Struct):
        event_version: ClassVar[int] = 0

    class Odd(msgspec.Struct):
        what: Any

    for kind in (Listed, Clashing, dict):
        with pytest.raises(BadInput):
            event_type(kind)  # type: ignore[arg-type]
    with pytest.raises(BadInput):
        event_version(Old)
    with pytest.raises(BadInput, match="cannot be written"):
        write_event(Odd(object()))
