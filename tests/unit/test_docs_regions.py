"""The page on regions is held to the code: its bytes are those that regions write."""

from __future__ import annotations

import re
from pathlib import Path

from headwater.wal.layout import RecordKind, encode_key, encode_meta_key, encode_payloads
from headwater.wal.region_meta import RegionMeta
from headwater.wal.snapshot import decode_chunk, encode_snapshot, joined
from headwater.wal.table_meta import TableMeta

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "explanation" / "regions.md").read_text("utf-8")
BYTES = {what: bytes.fromhex(written) for what, written in re.findall(r"^\| (.+?) \| `([0-9a-f ]{4,})` \|$", PAGE, re.MULTILINE)}


def test_keys_and_values() -> None:
    assert BYTES["key of an entry: region 1234, table 8910, sequence 1000"] == encode_key(RecordKind.ENTRY, 1234, 8910, 1000)
    assert BYTES["value of the payload `a`"] == encode_payloads([b"a"])
    assert BYTES["value of the payloads `a` and `bc`"] == encode_payloads([b"a", b"bc"])
    assert BYTES["key of a mark: everything up to 1000 is flushed"] == encode_key(RecordKind.MARK, 1234, 8910, 1001)


def test_snapshots() -> None:
    assert BYTES["key of region 42"] == encode_meta_key(42)
    (theirs,) = (value for what, value in BYTES.items() if what.startswith("CeresDB's value"))
    assert decode_chunk(theirs).tables == ((0, 42, 40, 142, 140),)
    (ours,) = (value for what, value in BYTES.items() if what.startswith("ours"))
    state = RegionMeta(watermark=64, tables={12: TableMeta(next=5, marked=2, watermark=32, offsets=[16, 16, 31])})
    assert encode_snapshot(state, 1024) == [ours]
    assert joined([decode_chunk(ours)]) == state
    assert len(BYTES) == 7


def test_every_kind_of_record_is_listed() -> None:
    listed = re.findall(r"^\| (\d) (\w+) \|", PAGE, re.MULTILINE)
    assert listed == [(str(kind.value), kind.name.lower()) for kind in RecordKind]
