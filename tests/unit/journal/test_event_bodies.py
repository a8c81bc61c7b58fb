"""Bodies of Appends: what is written is read back, kafka-journal's own files are read and written as they are."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.journal.histories import golden_files, need_golden
from tests.unit.journal.test_json_text import values

from headwater.core.errors import BadInput, UnreadableRecord
from headwater.journal.action import Events, PayloadMetadata
from headwater.journal.binary_body import binary_events, encode_binary_body
from headwater.journal.event import MAX_SEQ_NR, NumberedEvent, Payload, PayloadKind
from headwater.journal.event_bodies import decode_events, encode_events, expire_after_of
from headwater.journal.expire_after import LONGEST

texts = st.text(st.characters(codec="utf-8"), max_size=10)
jsons = values.map(lambda value: json.dumps(value, ensure_ascii=False).encode())
payloads = st.one_of(
    st.none(),
    st.builds(Payload, st.just(PayloadKind.BINARY), st.binary(max_size=20)),
    st.builds(Payload, st.just(PayloadKind.JSON), jsons),
    st.builds(Payload, st.just(PayloadKind.TEXT), texts.map(str.encode)),
)
events = st.lists(
    st.builds(NumberedEvent, st.integers(1, MAX_SEQ_NR), payloads, st.lists(texts, max_size=3).map(tuple)), min_size=1, max_size=4
)
metadata = st.builds(PayloadMetadata, st.none() | st.integers(0, LONGEST), st.none() | jsons.filter(lambda text: text != b"null"))


@given(events, metadata)
def test_what_is_written_is_read_back(some: list[NumberedEvent], more: PayloadMetadata) -> None:
    payload_type, body = encode_events(some, more)
    binary = any(event.payload is not None and event.payload.kind is PayloadKind.BINARY for event in some)
    assert payload_type == ("binary" if binary else "json")
    assert decode_events(payload_type, body) == Events(tuple(some), more)
    assert expire_after_of(payload_type, body) == more.expire_after


@given(events, metadata, st.data())
def test_a_damaged_body_is_a_body_or_unreadable(some: list[NumberedEvent], more: PayloadMetadata, data: st.DataObject) -> None:
    payload_type, body = encode_events(some, more)
    damaged = bytearray(body)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(0, len(damaged) - 1)))
        match data.draw(st.sampled_from(["flip", "cut", "drop", "insert"])):
            case "flip" if damaged:
                damaged[at] ^= data.draw(st.integers(1, 255))
            case "cut":
                del damaged[at:]
            case "drop":
                del damaged[at : at + 4]
            case _:
                damaged[at:at] = data.draw(st.binary(max_size=8))
    for reader in (decode_events, expire_after_of):
        with suppress(UnreadableRecord):
            reader(payload_type, bytes(damaged))


def test_wrong_events_are_not_written() -> None:
    with pytest.raises(BadInput, match="An append needs one event or more"):
        encode_events([])
    for number in (0, MAX_SEQ_NR + 1, True):
        with pytest.raises(BadInput, match="is no sequence number"):
            encode_events([NumberedEvent(number)])


def test_a_type_of_bodies_is_json_or_binary() -> None:
    for reader in (decode_events, expire_after_of):
        with pytest.raises(UnreadableRecord, match="'text' is no type of bodies"):
            reader("text", b"{}")


TAGS = {1: {"0", "1"}, 2: {"0", "1", "2"}, 3: {"0", "1", "2", "3"}, 4: {"0", "1", "2", "3", "4"}}
PLAIN = {
    "binary": Payload(PayloadKind.BINARY, b"binary"),
    "json": Payload(PayloadKind.JSON, b'"json"'),
    "text": Payload(PayloadKind.TEXT, b"text"),
    "empty": None,
}
WITH_METADATA = {"v1-events-json.bin", "v1-events-empty-binary-text-json.bin", "Payload-empty-binary-text-json.bin"}


@pytest.mark.parametrize("path", golden_files("*.bin") or [Path("absent")], ids=lambda path: path.name)
def test_binary_bodies_of_kafka_journal(path: Path) -> None:
    need_golden()
    body, kinds = path.read_bytes(), path.stem.removeprefix("v0-events-").removeprefix("v1-events-").removeprefix("Payload-").split("-")
    found = decode_events("binary", body)
    assert [event.seq_nr for event in found.events] == list(range(1, len(kinds) + 1))
    assert {event.seq_nr: set(event.tags) for event in found.events} == {number: TAGS[number] for number in range(1, len(kinds) + 1)}
    expected = [PLAIN[kind] for kind in kinds]
    if path.name == "Payload-binary.bin":
        expected = [Payload(PayloadKind.BINARY, b"payload")]
    assert [event.payload for event in found.events] == expected
    assert found.metadata == (PayloadMetadata(86_400_000, b'{"key":"value"}') if path.name in WITH_METADATA else PayloadMetadata())
    assert expire_after_of("binary", body) == found.metadata.expire_after
    payload_type, again = encode_events(found.events, found.metadata)
    assert decode_events(payload_type, again) == found
    if "binary" in kinds and not path.name.startswith("v0"):
        assert (payload_type, again) == ("binary", body)


JSON_PAYLOADS = {
    "empty": None,
    "json": Payload(PayloadKind.JSON, b'"payload"'),
    "text": Payload(PayloadKind.TEXT, b' {"key":"value"} '),
}


@pytest.mark.parametrize("path", golden_files("Payload-*.json") or [Path("absent")], ids=lambda path: path.name)
def test_json_bodies_of_kafka_journal(path: Path) -> None:
    need_golden()
    body = path.read_bytes()
    found = decode_events("json", body)
    assert found == Events((NumberedEvent(1, JSON_PAYLOADS[path.stem.rpartition("-")[2]], ("0", "1")),))
    assert expire_after_of("json", body) is None
    payload_type, again = encode_events(found.events, found.metadata)
    assert payload_type == "json"
    assert json.loads(again) == {"metadata": {}, **json.loads(body)}


@pytest.mark.parametrize("name", ["v1-events-empty.bin", "v1-events-json.bin", "v1-events-text.bin"])
def test_bodies_without_binary_payloads_are_written_as_binary_ones_alike(name: str) -> None:
    need_golden()
    body = next(path for path in golden_files(name)).read_bytes()
    found = binary_events(body)
    assert encode_binary_body(found.events, found.metadata) == body
