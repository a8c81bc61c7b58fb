"""Actions as records: what kafka-journal writes is read, what is written is what it reads."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.journal.histories import golden_files, need_golden

from headwater.core.errors import BadInput, UnreadableRecord
from headwater.journal.action import Action, ActionRecord, Append, Delete, Mark, Purge
from headwater.journal.event import MAX_SEQ_NR
from headwater.journal.wire import read_action, read_record, write_action, write_record
from headwater.log.record import Record

BODY = b'{"events":[{"seqNr":1}]}'
texts = st.text(st.characters(codec="utf-8"), max_size=8)
options = st.none() | texts
numbers = st.integers(1, MAX_SEQ_NR)
actions: st.SearchStrategy[Action] = st.one_of(
    st.builds(
        lambda pair, *rest: Append(min(pair), max(pair), *rest),
        st.tuples(numbers, numbers),
        st.sampled_from(["json", "binary"]),
        options,
        options,
        st.sampled_from([None, b"1.50", b'{"a":[1, 2]}', '"ü"'.encode()]),
    ),
    st.builds(Delete, numbers, options, options),
    st.builds(Purge, options, options),
    st.builds(Mark, texts, options, options),
)


@pytest.mark.parametrize(
    ("action", "written"),
    [
        (Append(1, 2), '{"append":{"range":{"from":1,"to":2},"payloadType":"json","metadata":{}}}'),
        (
            Append(3, 3, "binary", "höst", "0.1", b'{"k": 1.0}'),
            '{"append":{"range":{"from":3,"to":3},"origin":"höst","version":"0.1","payloadType":"binary","metadata":{"data":{"k": 1.0}}}}',
        ),
        (Delete(3, "o"), '{"delete":{"to":3,"origin":"o"}}'),
        (Purge(), '{"purge":{}}'),
        (Purge(None, "0.1"), '{"purge":{"version":"0.1"}}'),
        (Mark('a"b', "o", "v"), '{"mark":{"id":"a\\"b","origin":"o","version":"v"}}'),
    ],
)
def test_headers_have_these_bytes(action: Action, written: str) -> None:
    assert write_action(action) == written.encode()
    assert read_action(written.encode()) == action


@given(actions)
def test_what_is_written_is_read_back(action: Action) -> None:
    assert read_action(write_action(action)) == action


GOLDEN = {
    "Append-origin-Binary-legacy": Append(1, 5, "binary", "origin"),
    "Append-origin-Binary-metadata": Append(1, 5, "binary", "origin", None, b'{"key":"value"}'),
    "Append-origin-Binary-none": Append(1, 5, "binary", "origin"),
    "Append-origin-Json-legacy": Append(1, 5, "json", "origin"),
    "Append-origin-Json-metadata": Append(1, 5, "json", "origin", None, b'{"key":"value"}'),
    "Append-origin-Json-none": Append(1, 5, "json", "origin"),
    "Delete-origin": Delete(3, "origin", "0.0.1"),
    "Mark-origin": Mark("id", "origin"),
    "Purge-origin": Purge("origin"),
}


@pytest.mark.parametrize(
    "path", [path for path in golden_files("*.json") if not path.name.startswith("Payload")] or [Path("absent")], ids=lambda path: path.stem
)
def test_headers_of_kafka_journal(path: Path) -> None:
    need_golden()
    found = read_action(path.read_bytes())
    assert found is not None
    if isinstance(found, Append) and found.metadata is not None:  # written there over several lines
        found = msgspec.structs.replace(found, metadata=json.dumps(json.loads(found.metadata), separators=(",", ":")).encode())
    assert found == GOLDEN[path.stem]
    written = json.loads(write_action(found))
    if path.stem.endswith("legacy"):
        assert written["append"].pop("metadata") == {}
    assert written == json.loads(path.read_bytes())


def given_record(header: bytes | None = write_action(Append(1, 1)), **fields: object) -> Record:
    headers = () if header is None else (("journal.action", header),)
    return msgspec.structs.replace(Record(b"alice", BODY, headers, 5, offset=7), **fields)


def test_a_record_is_read() -> None:
    assert read_record(given_record()) == ActionRecord("alice", Append(1, 1), 7, 5, (), BODY)
    assert read_record(given_record(write_action(Purge()), value=None)) == ActionRecord("alice", Purge(), 7, 5)
    assert read_record(given_record(write_action(Purge()))) == ActionRecord("alice", Purge(), 7, 5)  # its value says nothing


@pytest.mark.parametrize(
    "ignored",
    [
        given_record(key=None),
        given_record(timestamp=None),
        given_record(timestamp=-1),
        given_record(None),
        given_record(b'{"new":{}}'),
        given_record(b"{}"),
        given_record(b"[]"),
        given_record(b'{"append":null}'),
        given_record(b'{"append":7}'),
        given_record(value=None),
        Record(b"alice", BODY, (("other", b"x"), ("headwater.epoch", b"12345678")), 5, offset=7),
    ],
)
def test_other_records_are_passed_over(ignored: Record) -> None:
    assert read_record(ignored) is None


@pytest.mark.parametrize(
    "header",
    [
        None,
        b"",
        b"{",
        b"\xff",
        b'{"append":{}}',
        b'{"append":{"range":{"from":1,"to":2}}}',
        b'{"append":{"range":{"from":2,"to":1},"payloadType":"json"}}',
        b'{"append":{"range":{"from":2,"to":1},"payloadType":"json","metadata":7}}',
        b'{"append":{"range":{"from":0,"to":1},"payloadType":"json"}}',
        b'{"append":{"range":{"from":1,"to":9223372036854775808},"payloadType":"json"}}',
        b'{"append":{"range":{"from":1,"to":2},"payloadType":"text"}}',
        b'{"append":{"range":{"from":1,"to":2},"payloadType":"json","origin":7}}',
        b'{"delete":{}}',
        b'{"delete":{"to":0}}',
        b'{"delete":{"to":"1"}}',
        b'{"mark":{}}',
        b'{"purge":{"origin":[]}}',
        b'{"purge":{"origin":"\xff"}}',
        b'{"new":' + b"[" * 10_000,
        b'{"append":7,"new":' + b"[" * 10_000,
    ],
)
def test_a_header_that_cannot_be_decoded_names_its_offset(header: bytes | None) -> None:
    with pytest.raises(UnreadableRecord, match="The record at offset 7 cannot be read") as caught:
        read_record(Record(b"alice", BODY, (("journal.action", header),), 5, offset=7))
    assert caught.value.offset == 7


def test_a_key_that_is_no_utf8_is_unreadable() -> None:
    with pytest.raises(UnreadableRecord, match="Its key"):
        read_record(given_record(key=b"\xff"))
    assert read_record(given_record(None, key=b"\xff")) is None  # no record of a journal


def test_foreign_forms_of_headers_are_read_as_kafka_journal_reads_them() -> None:
    append = b'"append":{"range":{"from":1,"to":2},"payloadType":"json"%b}'
    for metadata in (b"", b',"metadata":null', b',"metadata":7', b',"metadata":{"data":null}', b',"metadata":{},"new":[1]'):
        assert read_action(b"{%b}" % (append % metadata)) == Append(1, 2)
    assert read_action(b'{"purge":7,"delete":{"to":4}}') == Delete(4)
    assert read_action(b'{"purge":{},"delete":{"to":4},"mark":{"id":"x"},%b}' % (append % b"")) == Append(1, 2)
    assert read_action(b'{"purge":{},"delete":{"to":4},"mark":{"id":"x"}}') == Mark("x")
    assert read_action(b'{"purge":{"new":1},"delete":{"to":4}}') == Delete(4)


def test_of_headers_with_one_name_the_last_counts_and_of_actions_the_first() -> None:
    headers = (
        ("a", b"1"),
        ("journal.action", write_action(Append(1, 1))),
        ("a", b"2"),
        ("headwater.epoch", b"\x00" * 8),
        ("journal.action", b"{"),
        ("b", None),
        ("c", b"\xff"),
    )
    found = read_record(given_record(headers=headers))
    assert found is not None
    assert (found.action, found.headers) == (Append(1, 1), (("a", "2"), ("b", ""), ("c", "\ufffd")))


def test_a_record_is_written() -> None:
    record = write_record("ünï", Append(1, 1), value=BODY, headers=[("a", "ü")], own=[("headwater.key", b"k")], timestamp=5)
    assert record == Record(
        "ünï".encode(), BODY, (("journal.action", write_action(Append(1, 1))), ("a", "ü".encode()), ("headwater.key", b"k")), 5
    )
    found = read_record(msgspec.structs.replace(record, offset=3))
    assert found == ActionRecord("ünï", Append(1, 1), 3, 5, (("a", "ü"),), BODY)


@pytest.mark.parametrize(
    "headers",
    [
        [("journal.action", "x")],
        [("headwater.epoch", "x")],
        [("headwater.", "x")],
        [("a", "1"), ("a", "2")],
        [("a", b"x")],
        [("a", None)],
        [(7, "x")],
        [("a", "\ud800")],
        [("\ud800", "a")],
    ],
)
def test_other_headers_of_users_are_refused(headers: list[tuple[str, str]]) -> None:
    with pytest.raises(BadInput):
        write_record("alice", Append(1, 1), value=BODY, headers=headers)


@pytest.mark.parametrize(
    "action",
    [
        Append(0, 1),
        Append(2, 1),
        Append(1, MAX_SEQ_NR + 1),
        Append(1, 1, "text"),
        Append(1, 1, origin="\ud800"),
        Append(1, 1, metadata=b"{"),
        Delete(0),
        Delete(MAX_SEQ_NR + 1),
        Mark("\ud800"),
        Purge("\ud800"),
    ],
)
def test_actions_that_readers_could_not_read_are_not_written(action: Action) -> None:
    with pytest.raises(BadInput):
        write_record("alice", action, value=BODY if isinstance(action, Append) else None)


def test_appends_alone_have_a_value() -> None:
    with pytest.raises(BadInput, match="The value of Append is wrong"):
        write_record("alice", Append(1, 1))
    with pytest.raises(BadInput, match="The value of Purge is wrong"):
        write_record("alice", Purge(), value=b"")


@given(st.binary(max_size=60), actions, st.integers(0, 200), st.integers(0, 255))
def test_bytes_are_a_header_or_unreadable(header: bytes, action: Action, at: int, byte: int) -> None:
    with suppress(UnreadableRecord):
        read_action(header)
    damaged = bytearray(write_action(action))
    damaged[at % len(damaged)] = byte
    with suppress(UnreadableRecord):
        read_action(bytes(damaged))
