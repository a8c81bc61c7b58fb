"""Records by columns, as objects and as Arrow, are what decoding them one by one gives, whatever their shapes."""

from __future__ import annotations

import mmap
from pathlib import Path
from random import Random

import msgspec
import numpy as np
import pytest

from headwater.log.embedded import batches
from headwater.log.embedded.columns import decode_columns
from headwater.log.embedded.fields import Column, heads
from headwater.log.embedded.records import decode_records
from headwater.log.encoding import encode
from headwater.log.layout import decode, decode_headers, seal
from headwater.log.record import Record

ALL = 1 << 62


def text(random: Random, length: int) -> bytes:
    return random.choice([random.randbytes(length), bytes(length), b"x" * length])


def shapes(random: Random) -> list[list[Record]]:
    """Batches of records: of one shape, of nearly one shape, and of any."""
    kind = random.choice(["one", "one", "values differ", "keys differ", "any"])
    key, value = random.choice([0, 1, 4, 12, 13, 16, 64, 65]), random.choice([0, 1, 3, 12, 13, 84, 1024, 1025])
    made: list[list[Record]] = []
    for _ in range(random.randint(1, 40)):
        records = []
        for _ in range(random.choice([1, 1, 3, 50])):
            k = key if kind in ("one", "values differ") else random.randint(0, 80)
            v = value if kind in ("one", "keys differ") else random.randint(0, 200)
            record = Record(text(random, k), text(random, v), timestamp=random.choice([0, 1, 1 << 62, random.randrange(1 << 40)]))
            if kind == "any" and random.random() < 0.3:
                record = msgspec.structs.replace(
                    record,
                    key=random.choice([None, record.key]),
                    value=random.choice([None, record.value]),
                    headers=random.choice([(), (("name", None),), (("a", b""), ("a", text(random, 20)))]),
                )
            if random.random() < 0.1:
                record = msgspec.structs.replace(record, mode=random.randint(0, 3), op=random.randint(0, 7))
            records.append(record)
        made.append(records)
    return made


def written(path: Path, made: list[list[Record]], random: Random) -> tuple[mmap.mmap, int, Column, list[Record]]:
    offset = base = random.choice([0, 7, 1 << 40])
    out = b""
    for records in made:
        batch = encode(records, now=1)
        seal(batch, offset, base)
        out += batch.buffer
        offset += len(records)
    path.write_bytes(out)
    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), len(out), prot=mmap.PROT_READ)
    starts, end = batches.walk(data, 0, len(out), base)
    assert end == len(out)
    given = [msgspec.structs.replace(record, offset=base + n) for n, record in enumerate(record for some in made for record in some)]
    return data, len(out), np.array(starts, np.int64), given


def as_records(rows: object) -> list[Record]:
    return [
        Record(
            row["key"],
            row["value"],
            decode_headers(row["headers"]) if row["headers"] is not None else (),
            row["timestamp"],
            row["mode"],
            row["op"],
            row["offset"],
        )
        for row in rows.to_pylist()  # type: ignore[attr-defined]
    ]


@pytest.mark.parametrize("seed", range(150))
def test_columns_and_objects_equal_the_records_one_by_one(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    data, size, starts, given = written(tmp_path / "s", shapes(random), random)
    base = given[0].offset or 0
    assert [decode(data, int(at)) for at in starts] == given
    proved, end, head = batches.prove_heads(data, starts.astype("<u4"), 0, size, base)
    assert (proved.tolist(), end) == (starts.tolist(), size)
    for known in (None, heads(data, size, starts), head):
        assert decode_records(data, size, starts, room=ALL, head=known)[0] == given
        assert as_records(decode_columns(data, size, starts, known)) == given
    first = random.randrange(len(starts))
    count = random.randint(1, len(starts) - first)
    some = starts[first : first + count]
    assert decode_records(data, size, some, room=ALL)[0] == given[first : first + count]
    assert as_records(decode_columns(data, size, some)) == given[first : first + count]


@pytest.mark.parametrize("seed", range(40))
def test_as_many_records_are_given_as_there_is_room_for(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    data, size, starts, given = written(tmp_path / "s", shapes(random), random)
    sizes = np.cumsum([len(one.key or b"") + len(one.value or b"") for one in given])
    for room in (0, 1, int(sizes[-1]) // 2, int(sizes[-1]) - 1, int(sizes[-1])):
        records, taken = decode_records(data, size, starts, room=room)
        assert records == given[: int((sizes <= room).sum())]
        assert taken == (int(sizes[len(records) - 1]) if records else 0)


@pytest.mark.parametrize("seed", range(60))
def test_a_sidecar_that_lies_proves_no_more_than_a_walk_finds(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    data, size, starts, given = written(tmp_path / "s", shapes(random), random)
    base = given[0].offset or 0
    rows = starts.astype("<u4")
    for _ in range(20):
        lying = rows.copy()
        lying[random.randrange(len(rows))] = random.choice([0, (1 << 32) - 1, random.randrange(1 << 32), random.randrange(size)])
        found, end, head = batches.prove_heads(data, lying, 0, size, base)
        assert found.tolist() == starts[: len(found)].tolist()
        assert end == (int(starts[len(found)]) if len(found) < len(starts) else size)
        if head is not None:
            assert decode_records(data, size, found, room=ALL, head=head)[0] == given[: len(found)]


@pytest.mark.parametrize("key", [b"k", b"a key that is pointed at, not copied"])
@pytest.mark.parametrize("value", [None, b"v", b"a value that is pointed at, not copied" * 20])
def test_records_behind_2_gib_of_a_segment_are_given_as_they_are(tmp_path: Path, key: bytes, value: bytes | None) -> None:
    """A segment is closed by the append that finds it too large: the batch before may have begun just below 2 GiB."""
    records = [Record(key, value, (("name", b"a header that is pointed at"),), 1, offset=n) for n in range(40)]
    batch = encode(records, now=1)
    seal(batch, 0, 0)
    with (tmp_path / "segment").open("w+b") as file:
        begin = (2 << 30) - len(batch.buffer) // 2
        file.truncate(begin)  # a hole, which takes no space
        file.seek(begin)
        file.write(batch.buffer)
        file.flush()
        size = file.tell()
        data = mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ)
    starts = np.asarray(batch.starts, np.int64) + begin
    columns = decode_columns(data, size, starts)
    columns.validate(full=True)
    assert as_records(columns) == records
