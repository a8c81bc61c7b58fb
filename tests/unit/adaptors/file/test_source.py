"""What the file source reads, and what it says of files that it cannot read."""

from __future__ import annotations

import gzip
import io
import os
import re
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.adaptors.file.adaptor import File
from headwater.adaptors.file.csv_reader import csv_pieces
from headwater.adaptors.file.json_lines import line_documents, line_pieces, stream_pieces
from headwater.adaptors.file.parquet_reader import parquet_pieces
from headwater.core.errors import BadInput, Damaged, Differs
from headwater.pipeline import values
from headwater.pipeline.adaptors import file
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.source_adaptor import Piece
from headwater.pipeline.source_progress import CopySize


def read(adaptor: File) -> Iterator[Piece]:
    """The pieces of all slices, from their beginning."""
    for part in adaptor.plan(Namespaces(), 1).slices:
        yield from adaptor.read(part, None)


def documents(adaptor: File) -> list[dict[str, Any]]:
    return [values.decode(one) for piece in read(adaptor) for one in piece.values]


def bad(adaptor: File) -> list[tuple[bytes, str]]:
    """The records that could not be read, and why."""
    return [(piece.values[index], why) for piece in read(adaptor) for index, why in piece.bad.items()]


# -- files that change --------------------------------------------------------------------------------------

FORMATS = ["in.jsonl", "in.jsonl.gz", "in.csv", "in.csv.zst", "in.parquet"]


def make(path: Path, tag: str) -> None:
    """A file of three documents."""
    rows = [{"_id": n, "tag": tag} for n in range(3)]
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=1)
        return
    data = b"_id,tag\n" + "".join(f"{n},{tag}\n" for n in range(3)).encode()
    if ".jsonl" in path.name:
        data = b"".join(values.encode(row) + b"\n" for row in rows)
    if path.suffix == ".gz":
        data = gzip.compress(data)
    if path.suffix == ".zst":
        data = pa.compress(data, codec="zstd", asbytes=True)
    path.write_bytes(data)


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_that_was_replaced_since_the_plan_is_not_read(tmp_path: Path, name: str) -> None:
    make(tmp_path / name, "old")
    adaptor = file(str(tmp_path / name))
    [part] = adaptor.plan(Namespaces(), 1).slices
    assert len([one for piece in adaptor.read(part, None) for one in piece.values]) == 3
    make(tmp_path / f"new-{name}", "new")
    os.replace(tmp_path / f"new-{name}", tmp_path / name)
    with pytest.raises(Differs, match="has changed since its copy began") as no:
        list(adaptor.read(part, None))
    assert "--again" in no.value.hint
    (tmp_path / name).unlink()
    with pytest.raises(Differs, match="is gone since"):
        list(adaptor.read(part, None))


def test_a_file_that_changes_while_it_is_read_is_not_read_on(tmp_path: Path) -> None:
    make(tmp_path / "in.parquet", "old")
    adaptor = file(str(tmp_path / "in.parquet"))
    [part] = adaptor.plan(Namespaces(), 1).slices
    pieces = adaptor.read(part, None)
    assert len(next(pieces).values) == 1
    make(tmp_path / "other.parquet", "new")
    os.replace(tmp_path / "other.parquet", tmp_path / "in.parquet")
    with pytest.raises(Differs):
        list(pieces)


def test_a_file_that_was_cut_short_differs(tmp_path: Path) -> None:
    make(tmp_path / "in.jsonl", "old")
    adaptor = file(str(tmp_path / "in.jsonl"))
    [part] = adaptor.plan(Namespaces(), 1).slices
    os.truncate(tmp_path / "in.jsonl", 0)
    with pytest.raises(Differs):
        list(adaptor.read(part, None))


# -- JSON lines ---------------------------------------------------------------------------------------------

LONG = b'{"_id":2,"v":"' + b"x" * 100 + b'"}'


def texts(pieces: list[Piece]) -> list[bytes]:
    """The documents; the long one whole where its beginning is there."""
    return [LONG if len(one) > 20 and LONG.startswith(one) else one for piece in pieces for one in piece.values]


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1}{"b":2}\n{"c":\n3}\n',
        b'{"a":\n1}\n{"b":1} {"c":2}\n',
        b'{"a":{"b":1}\n}{}\n{}\n',
        b'{"a":[{}\n,{}]}{}\n{}\n',
        b"{}{}\n\n{}\n",
        b"{}\n[{}\n]{}\n{}{}{}\n",
        b'{"a":"}\n{"}\n{}{}\n',
    ],
)
def test_documents_and_lines_of_the_same_number_are_not_taken_for_each_other(data: bytes) -> None:
    found, bad = line_documents(data, lambda index: index + 1)
    lines = [line for line in data.split(b"\n") if line]
    assert list(found) == lines
    for index, line in enumerate(lines):
        try:
            values.decode(line)
            assert index not in bad
        except BadInput:
            assert index in bad


@pytest.mark.parametrize("ended", [b"\n", b""], ids=["ended", "not ended"])
@pytest.mark.parametrize("where", ["amid", "at the end"])
def test_a_line_longer_than_a_record_is_poison_with_its_number_and_its_beginning(tmp_path: Path, where: str, ended: bytes) -> None:
    lines = [b'{"_id":1}', LONG, b'{"_id":3}', b'{"_id":4}'] if where == "amid" else [b'{"_id":1}', b'{"_id":3}', b'{"_id":4}', LONG]
    at = lines.index(LONG)
    data = b"\n".join(lines) + ended
    (tmp_path / "in.jsonl").write_bytes(data)
    whole = list(line_pieces(tmp_path / "in.jsonl", 0, len(data), None, usual=16, longest=60))
    streamed = list(stream_pieces(io.BytesIO(data), None, usual=16, longest=60))
    for pieces in (whole, streamed):
        assert texts(pieces) == lines
        [wrong] = [why for piece in pieces for why in piece.bad.values()]
        assert wrong.startswith(f"Line {at + 1} has more than 60 bytes")
    for n, piece in enumerate(whole):
        again = line_pieces(tmp_path / "in.jsonl", 0, len(data), piece.position, usual=16, longest=60)
        assert list(again) == whole[n + 1 :]
    for n, piece in enumerate(streamed):
        assert list(stream_pieces(io.BytesIO(data), piece.position, usual=16, longest=60)) == streamed[n + 1 :]


def test_only_the_beginning_of_a_line_that_is_too_long_is_kept(tmp_path: Path) -> None:
    line = b'{"v":"' + b"x" * (17 << 20) + b'"}\n'
    (tmp_path / "in.jsonl").write_bytes(b'{"_id":1}\n' + line + b'{"_id":3}\n')
    found = [one for piece in read(file(str(tmp_path / "in.jsonl"))) for one in piece.values]
    assert [len(one) for one in found] == [9, 65536, 9]
    assert line.startswith(found[1])


def test_slices_of_lines_fit_together_where_a_line_is_too_long(tmp_path: Path) -> None:
    data = b'{"_id":1}\n' + LONG + b'\n{"_id":3}\n'
    (tmp_path / "in.jsonl").write_bytes(data)
    for cut in range(len(data) + 1):
        pieces = [
            *line_pieces(tmp_path / "in.jsonl", 0, cut, None, usual=16, longest=60),
            *line_pieces(tmp_path / "in.jsonl", cut, len(data), None, usual=16, longest=60),
        ]
        assert texts(pieces) == [b'{"_id":1}', LONG, b'{"_id":3}'], cut


def test_a_long_line_that_a_record_can_hold_is_read(tmp_path: Path) -> None:
    data = b'{"_id":1}\n' + LONG + b'\n{"_id":3}\n'
    (tmp_path / "in.jsonl").write_bytes(data)
    pieces = list(line_pieces(tmp_path / "in.jsonl", 0, len(data), None, usual=16))
    assert [one for piece in pieces for one in piece.values] == data.splitlines()
    assert not any(piece.bad for piece in pieces)


@pytest.mark.parametrize("name", ["in.jsonl", "in.jsonl.gz"])
def test_brackets_without_end_are_poison(tmp_path: Path, name: str) -> None:
    data = b'{"_id":1}\n{"a":' + b"[" * 100_000 + b"]" * 100_000 + b'}\n{"_id":3}\n'
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    [(_, why)] = bad(file(str(tmp_path / name)))
    assert why.startswith("Line 2 is no JSON object: maximum recursion depth exceeded")


@pytest.mark.parametrize("name", ["in.jsonl", "in.jsonl.gz"])
def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path, name: str) -> None:
    data = b'\xef\xbb\xbf{"_id":1}\n{"_id":2}\n'
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    adaptor = file(str(tmp_path / name))
    assert documents(adaptor) == [{"_id": 1}, {"_id": 2}]
    assert bad(adaptor) == []


# -- CSV ----------------------------------------------------------------------------------------------------


def csv(path: Path, text: str) -> File:
    path.write_text(text)
    return file(str(path))


def test_lines_with_nothing_on_them_are_no_rows(tmp_path: Path) -> None:
    adaptor = csv(tmp_path / "in.csv", "\n_id,a\n1,x\n\n2,y\r\n\r\n")
    assert documents(adaptor) == [{"_id": 1, "a": "x"}, {"_id": 2, "a": "y"}]
    assert bad(adaptor) == []


def test_columns_of_the_same_name_are_all_kept(tmp_path: Path) -> None:
    adaptor = csv(tmp_path / "in.csv", "_id,a,a,a_2,,\n1,x,y,z,v,w\n")
    assert documents(adaptor) == [{"_id": 1, "a": "x", "a_3": "y", "a_2": "z", "": "v", "_2": "w"}]


def test_a_header_that_is_none_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="Line 1 is no header of a CSV file"):
        list(read(csv(tmp_path / "in.csv", '"a"b,c\n1,2\n')))


def test_a_large_cell_is_read(tmp_path: Path) -> None:
    adaptor = csv(tmp_path / "in.csv", f"_id,a\n1,{'z' * 140_000}\n")
    assert documents(adaptor) == [{"_id": 1, "a": "z" * 140_000}]


def test_a_number_of_very_many_digits_stays_text(tmp_path: Path) -> None:
    nines = "9" * 5000
    assert documents(csv(tmp_path / "in.csv", f"_id,a\n1,{nines}\n2,{nines[:4000]}\n")) == [
        {"_id": 1, "a": nines},
        {"_id": 2, "a": int(nines[:4000])},
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-7", -7),
        ("007", "007"),
        ("1.50", Decimal("1.50")),
        ("-0.5", Decimal("-0.5")),
        ("1.25", Decimal("1.25")),
        ("1e3", Decimal("1e3")),
        ("1e9999999999999999999999", "1e9999999999999999999999"),
        ("1٢", "1٢"),
        (".5", ".5"),
        ("-", "-"),
    ],
)
def test_a_cell_is_a_number_where_it_is_written_as_one(tmp_path: Path, text: str, value: Any) -> None:
    [found] = documents(csv(tmp_path / "in.csv", f"a\n{text}\n"))
    assert repr(found) == repr({"a": value})


def test_a_row_that_is_no_csv_keeps_its_text(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_bytes(b'_id,a\n1,"x"y\n2,\xff\n3,z\n4,5,6\n7\n')
    assert bad(file(str(tmp_path / "in.csv"))) == [
        (b'1,"x"y', "Line 2 is no CSV: ',' expected after '\"'."),
        (b"2,\xff", "Line 3 is not in UTF-8."),
        (b'{"_id":4,"a":5,"column 3":6}', "Line 5 has 3 cells, its header 2."),
        (b'{"_id":7}', "Line 6 has 1 cells, its header 2."),
    ]


@pytest.mark.parametrize("long", ["x" * 100, '"' + "x" * 100 + '"', '"' + "x" * 100 + '\nmore"', '"a\n' + "x" * 100 + '\nb"'])
def test_a_row_longer_than_a_record_is_poison_and_those_behind_it_are_found(long: str) -> None:
    data = f"_id,a\n1,x\n2,{long}\n3,y\n4,z\n".encode()
    pieces = list(csv_pieces(True, io.BytesIO(data), None, usual=1, longest=60))
    assert [values.decode(one) for piece in pieces for one in piece.values if not piece.bad] == [
        {"_id": 1, "a": "x"},
        {"_id": 3, "a": "y"},
        {"_id": 4, "a": "z"},
    ]
    [(text, why)] = [(piece.values[0], piece.bad[0]) for piece in pieces if piece.bad]
    assert text.startswith(b"2,")
    assert why.startswith("Line 3 has more than 60 bytes")
    for n, piece in enumerate(pieces):
        assert list(csv_pieces(True, io.BytesIO(data), piece.position, usual=1, longest=60)) == pieces[n + 1 :]


# -- Parquet ------------------------------------------------------------------------------------------------


def parquet(path: Path, **columns: Any) -> File:
    pq.write_table(pa.table(columns), path, row_group_size=5)
    return file(str(path))


def test_nanoseconds_are_kept(tmp_path: Path) -> None:
    whole, more = 1_700_000_000_123_456_000, 1_700_000_000_123_456_789
    moments = pa.array([whole, more, -1, None], pa.timestamp("ns"))
    adaptor = parquet(
        tmp_path / "in.parquet",
        t=moments,
        z=moments.cast(pa.timestamp("ns", "Europe/Berlin")),
        clock=pa.array([1_000, 123_456_789, 0, None], pa.time64("ns")),
        took=pa.array([1_500_000_000, 1, -1, None], pa.duration("ns")),
        deep=pa.array([{"t": [whole]}, {"t": [more, None]}, {"t": []}, None], pa.struct({"t": pa.list_(pa.timestamp("ns"))})),
    )
    first, second, third, fourth = documents(adaptor)
    us, ns = {"$date": "2023-11-14T22:13:20.123456Z"}, {"$date": "2023-11-14T22:13:20.123456789Z"}
    assert first == {"t": us, "z": us, "clock": "00:00:00.000001", "took": 1.5, "deep": {"t": [us]}}
    assert second == {"t": ns, "z": ns, "clock": "00:00:00.123456789", "took": Decimal("1E-9"), "deep": {"t": [ns, None]}}
    assert third["t"] == {"$date": "1969-12-31T23:59:59.999999999Z"}
    assert third["clock"] == "00:00:00"
    assert fourth == {"t": None, "z": None, "clock": None, "took": None, "deep": None}


def test_a_day_is_the_moment_at_which_it_begins(tmp_path: Path) -> None:
    assert documents(parquet(tmp_path / "in.parquet", d=pa.array([date(2024, 1, 2)]))) == [{"d": {"$date": "2024-01-02T00:00:00.000Z"}}]


FAR = 10**18  # microseconds: the year 33658


@pytest.mark.parametrize(
    ("column", "stored", "why"),
    [
        (pa.array([0, FAR, None], pa.timestamp("us")), FAR, r"v \(timestamp\[us\]\) has a value that lies outside of the years 1 to 9999"),
        (pa.array([0, -FAR, None], pa.timestamp("us", "Europe/Berlin")), -FAR, "years 1 to 9999"),
        (pa.array([0, FAR, None], pa.timestamp("ms")), FAR, "years 1 to 9999"),
        (pa.array([0, 10**7, None], pa.date32()), 10**7, r"v \(date32\[day\]\) has a value that lies outside of the years 1 to 9999"),
        (pa.array([0, 2**62, None], pa.duration("s")), 2**62, "is too long a time"),
        (pa.array([[{"t": 0}], [{"t": 0}, {"t": FAR}], None], pa.list_(pa.struct({"t": pa.timestamp("us")}))), None, "years 1 to 9999"),
        (pa.array([b"x", b"\xffy", None]).cast(pa.binary()).view(pa.string()), "\\xffy", "is not in UTF-8"),
    ],
    ids=["timestamp", "zone", "ms", "date", "duration", "nested", "text"],
)
def test_a_value_of_parquet_that_python_has_none_for_is_a_poison_record(tmp_path: Path, column: pa.Array, stored: Any, why: str) -> None:
    """Before, the run ended with a traceback, and read nothing of the rest."""
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"_id": range(6), "v": pa.concat_arrays([column, column])}), path, row_group_size=4)
    pieces = list(parquet_pieces(path, None, most=30))
    found = [(values.decode(text), piece.bad.get(at)) for piece in pieces for at, text in enumerate(piece.values)]
    assert [document["_id"] for document, _ in found] == list(range(6))
    assert [at for at, (_, wrong) in enumerate(found) if wrong] == [1, 4]
    for at in (1, 4):
        document, wrong = found[at]
        assert wrong is not None
        assert re.match(rf"Row {at + 1}: the column .*{why}", wrong), wrong
        assert document["v"] == stored if stored is not None else document["v"][1] == {"t": FAR}
    last = list(parquet_pieces(path, [1, 0], most=5000))
    assert [list(piece.bad) for piece in last] == [[0]]
    assert last[0].bad[0].startswith("Row 5: ")


def test_the_last_hours_of_the_year_9999_are_read_whatever_the_time_zone(tmp_path: Path) -> None:
    end = pa.array([253402300799999], pa.timestamp("ms", "Asia/Tokyo"))
    assert documents(parquet(tmp_path / "in.parquet", t=end)) == [{"t": {"$date": "9999-12-31T23:59:59.999Z"}}]


@pytest.mark.parametrize("text", ["same", "each its own"])
def test_a_piece_of_parquet_is_bounded_and_reading_goes_on_behind_it(tmp_path: Path, text: str) -> None:
    cells = ["x" * 400] * 12 if text == "same" else [f"{n:400}" for n in range(12)]
    path = tmp_path / "in.parquet"
    parquet(path, _id=range(12), v=cells)
    pieces = list(parquet_pieces(path, None, [0, 3], most=1000))
    assert max(len(one.values) for one in pieces) <= 3
    assert [values.decode(one)["_id"] for piece in pieces for one in piece.values] == list(range(12))
    for n, piece in enumerate(pieces):
        rest = [one for piece in parquet_pieces(path, piece.position, [0, 3], most=5000) for one in piece.values]
        assert rest == [one for piece in pieces[n + 1 :] for one in piece.values]


# -- files that are not what they should be ------------------------------------------------------------------


def test_a_file_of_parquet_that_is_empty_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "in.parquet").touch()
    with pytest.raises(Damaged, match=r"in\.parquet is no whole parquet"):
        list(read(file(str(tmp_path / "in.parquet"))))


@pytest.mark.parametrize("name", ["in.jsonl.gz", "in.csv.gz", "in.jsonl.zst", "in.csv.zst", "in.parquet"])
def test_a_file_that_ends_too_early_is_damaged(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    make(path, os.urandom(4000).hex())
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(Damaged, match=f"{name} is no whole"):
        list(read(file(str(path))))


def test_a_name_that_is_not_in_utf8_is_said(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "good.jsonl").write_text("{}")
    Path(os.fsdecode(os.fsencode(tmp_path / "in") + b"/\xff.jsonl")).write_text("{}")
    with pytest.raises(BadInput, match=r"in/\\udcff.jsonl is not in UTF-8"):
        list(read(file(f"{tmp_path}/in/")))
    assert list(file(f"{tmp_path}/in/").plan(Namespaces("^good"), 1).identity) == ["good.jsonl"]


def test_a_name_with_brackets_that_is_there_is_no_pattern(tmp_path: Path) -> None:
    (tmp_path / "a[1].jsonl").write_text('{"_id":1}')
    (tmp_path / "a1.jsonl").write_text('{"_id":2}')
    assert documents(file(str(tmp_path / "a[1].jsonl"))) == [{"_id": 1}]
    assert documents(file(str(tmp_path / "a[0-9].jsonl"))) == [{"_id": 2}]


# -- how much there is to read --------------------------------------------------------------------------------


def amounts(adaptor: File, slices: int = 1) -> list[list[int | None]]:
    """Of each slice, how much is read by each of its pieces."""
    return [[piece.amount for piece in adaptor.read(part, None)] for part in adaptor.plan(Namespaces(), slices).slices]


@pytest.mark.parametrize("name", ["in.jsonl", "in.jsonl.gz", "in.csv", "in.csv.zst"])
def test_a_file_is_measured_by_its_own_bytes(tmp_path: Path, name: str) -> None:
    make(tmp_path / name, "a")
    length = (tmp_path / name).stat().st_size
    adaptor = file(str(tmp_path / name))
    plan = adaptor.plan(Namespaces(), 4)
    assert plan.size == CopySize(total=length, unit="bytes")
    assert [one.size for one in plan.slices] == [length]
    assert amounts(adaptor) == [[length]]


@pytest.mark.parametrize("name", ["in.jsonl.gz", "in.csv.zst", "in.csv"])
def test_a_stream_that_is_entered_again_tells_how_much_of_the_whole_is_read(tmp_path: Path, name: str) -> None:
    rows = [f"{n},{os.urandom(2000).hex()}" for n in range(2000)]
    data = "\n".join(["_id,x", *rows] if "csv" in name else [f'{{"_id":{n},"x":"{one}"}}' for n, one in enumerate(rows)]).encode() + b"\n"
    compressed = (
        gzip.compress(data, 1) if name.endswith("gz") else pa.compress(data, "zstd", asbytes=True) if name.endswith("zst") else data
    )
    (tmp_path / name).write_bytes(compressed)
    adaptor = file(str(tmp_path / name))
    [part] = adaptor.plan(Namespaces(), 1).slices
    first, *rest = adaptor.read(part, None)
    assert first.amount is not None
    assert 0 < first.amount < len(compressed)
    again = list(adaptor.read(part, first.position))
    assert [(one.position, one.amount) for one in again] == [(one.position, one.amount) for one in rest]
    assert again[-1].amount == len(compressed)


def test_slices_of_lines_are_measured_from_their_own_beginning(tmp_path: Path) -> None:
    line = b'{"_id":1,"x":"' + b"y" * 983 + b'"}\n'
    (tmp_path / "in.jsonl").write_bytes(line * 17_000)
    adaptor = file(str(tmp_path / "in.jsonl"))
    plan = adaptor.plan(Namespaces(), 2)
    assert plan.size == CopySize(total=17_000 * len(line), unit="bytes")
    assert sum(one.size or 0 for one in plan.slices) == plan.size.total
    for part, read in zip(plan.slices, amounts(adaptor, 2), strict=True):
        assert part.size is not None
        assert read == sorted(read)  # type: ignore[type-var]
        assert 0 <= part.size - (read[-1] or 0) + len(line) < 2 * len(line)  # the last line may end in the next slice


def test_parquet_is_measured_by_its_rows(tmp_path: Path) -> None:
    make(tmp_path / "a.parquet", "a")
    make(tmp_path / "b.parquet", "b")
    plan = file(f"{tmp_path}/").plan(Namespaces(), 2)
    assert plan.size == CopySize(total=6, unit="documents")
    assert [one.size for one in plan.slices] == [1, 2, 1, 2]
    assert {amount for part in amounts(file(f"{tmp_path}/")) for amount in part} == {None}  # its documents count


def test_files_that_have_no_unit_in_common_and_streams_are_not_measured(tmp_path: Path) -> None:
    make(tmp_path / "a.parquet", "a")
    make(tmp_path / "b.jsonl", "b")
    plan = file(f"{tmp_path}/").plan(Namespaces(), 2)
    assert plan.size is None
    assert {one.size for one in plan.slices} == {None}
    assert file("stdin://").plan(Namespaces(), 1).size is None


def test_ids_may_repeat_wherever_each_file_is_one_slice(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("_id,n\n1,1\n1,2\n")
    (tmp_path / "a.jsonl").write_text('{"_id": 1}\n' * 2_000_000)
    assert file(str(tmp_path)).plan(Namespaces(), 1).repeats  # two files of one namespace
    assert not file(str(tmp_path)).plan(Namespaces(), 2).repeats  # slices of one file are read side by side


@pytest.mark.parametrize(("name", "text"), [("in.csv", "a,b\n1.20,7\n1e3,7.0\n"), ("in.jsonl", '{"a":1.20,"b":7}\n{"a":1e3,"b":7.0}\n')])
def test_floats_that_are_asked_for_are_in_every_cell(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert repr(documents(File(uri=str(tmp_path / name), decimals="float"))) == "[{'a': 1.2, 'b': 7}, {'a': 1000.0, 'b': 7.0}]"
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    assert repr(documents(File(uri=str(tmp_path / f"{name}.gz"), decimals="float"))) == "[{'a': 1.2, 'b': 7}, {'a': 1000.0, 'b': 7.0}]"


def test_a_number_that_no_float_can_be_is_a_poison_record(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"a":1.5}\n{"a":1e400}\n')
    source = File(uri=str(tmp_path / "in.jsonl"), decimals="float")
    [piece] = source.read(source.plan(Namespaces(), 1).slices[0], None)
    assert dict(piece.bad) == {1: "The number 1e400 is beyond the largest float."}
    assert list(piece.values) == [b'{"a":{"$numberDouble":"1.5"}}', b'{"a":1e400}']
