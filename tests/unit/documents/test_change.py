"""Records of documents come back from the log as they were written."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from headwater.core.errors import Damaged
from headwater.documents.change import ChangeRecord, Idempotency, IndexDefinition, ResourceChange, SortField, decode_record, encode_record

RECORD = ChangeRecord(
    uri="a/b~",
    generation=3,
    changes=(
        ResourceChange(
            method="put",
            revision=4,
            item="x",
            event=msgspec.Raw(b'{"id":"x","price":1.20,"big":123456789012345678901234567890}'),
            created=True,
            expires=5,
            obsolete={1: b"\x00\xff", 2: b""},
        ),
        ResourceChange(method="patch", revision=5, item="y", event=msgspec.Raw(b'{"p":null}'), body=msgspec.Raw(b'{"id":"y"}')),
        ResourceChange(method="delete", revision=6, item="z"),
    ),
    last_id="x",
    idempotency=Idempotency("key", "digest", 201),
    index=IndexDefinition(id="i", number=7, sort_by=(SortField("p", "desc", "decimal"),), filter_by="p > 1", state="ready"),
    dropped_index=2,
    settings=msgspec.Raw(b'{"view":1}'),
    source="0-5",
)


def test_a_record_comes_back_with_its_bodies_byte_for_byte() -> None:
    found = decode_record(encode_record(RECORD), "here")
    assert found == RECORD
    assert bytes(found.changes[0].event) == bytes(RECORD.changes[0].event)


def test_what_is_not_given_takes_no_space() -> None:
    record = ChangeRecord(uri="a", changes=(ResourceChange(method="delete", revision=1),))
    assert encode_record(record) == b'{"uri":"a","changes":[{"method":"delete","revision":1}]}'
    assert decode_record(encode_record(record), "here") == record


def test_the_state_is_the_body_or_the_event() -> None:
    put, patch, delete = RECORD.changes
    assert put.state == bytes(put.event)
    assert patch.state == b'{"id":"y"}'
    assert delete.state == b""


@pytest.mark.parametrize("value", [None, b"", b"{", b"[]", b"{}", b'{"uri":1}', b'{"uri":"a","changes":[{}]}', b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_record_is_damage(value: bytes | None) -> None:
    with pytest.raises(Damaged, match="hyper-storage/0 at offset 7 is no record of documents"):
        decode_record(value, "hyper-storage/0 at offset 7")


def test_the_explanation_names_every_field() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "explanation" / "documents.md").read_text("utf-8")
    section = page.split("## A record\n", 1)[1].split("\n## ", 1)[0]
    for heading, kind in (("field", ChangeRecord), ("field of a change", ResourceChange)):
        rows = section.split(f"| {heading} | meaning |\n", 1)[1].split("\n\n", 1)[0].splitlines()[1:]
        assert [name for row in rows for name in re.findall(r"`(\w+)`", row.split(" | ")[0])] == list(kind.__struct_fields__)
    (written,) = re.findall(r"```json\n(.*?)```", section, re.DOTALL)
    record = decode_record(written.replace("\u2026", "AA==").encode(), "the page")
    assert [(change.method, change.revision, change.obsolete) for change in record.changes] == [("patch", 3, {1: b"\0"})]
