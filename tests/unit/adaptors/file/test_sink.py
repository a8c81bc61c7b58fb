"""What the file sink writes, read back with other means."""

from __future__ import annotations

import csv
import gzip
import io
import json
import shutil
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.adaptors.file.adaptor import File
from headwater.core.errors import AlreadyExists, BadConfig, Conflict, Damaged, Rejected, Unavailable
from headwater.pipeline import values
from headwater.pipeline.adaptors import file
from headwater.pipeline.message import Message
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.sink_adaptor import Batch, Part


def publish(adaptor: File, start: int, documents: list[dict[str, Any]]) -> None:
    """Write one part and make it count, as a run does."""
    for part, receipt in written(adaptor, [(start, documents)]):
        adaptor.publish(part, receipt)


def written(adaptor: File, parts: list[tuple[int, list[dict[str, Any]]]]) -> list[tuple[Part, dict[str, Any]]]:
    """Parts that are written side by side, and not yet published."""
    made = []
    for start, documents in parts:
        part = Part(pipeline="p", sink="s", start=start, end=start + len(documents), epoch=1, attempt=f"a{start}")
        messages = [Message("in", one, offset=start + at, timestamp=7) for at, one in enumerate(documents)]
        with closing(adaptor.writer(part)) as writer:
            writer.write(Batch(start=start, end=part.end, messages=messages))
            made.append((part, writer.finish()))
    return made


def plain(path: Path) -> str:
    if path.suffix == ".gz":
        return gzip.decompress(path.read_bytes()).decode()
    if path.suffix == ".zst":
        return bytes(pa.CompressedInputStream(pa.OSFile(str(path)), "zstd").read()).decode()
    return path.read_text()


@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz", "out.csv.zst"])
def test_a_csv_file_has_one_header_however_many_parts_it_is_made_of(tmp_path: Path, name: str) -> None:
    adaptor = file(str(tmp_path / name))
    adaptor.begin("p", "s", 1)
    publish(adaptor, 0, [{"a": 1, "b": "x"}])
    publish(adaptor, 1, [{"b": "y", "a": 2}])
    assert list(csv.reader(io.StringIO(plain(tmp_path / name)))) == [["a", "b"], ["1", "x"], ["2", "y"]]
    assert list(adaptor.rows("")) == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


def test_parts_that_were_written_side_by_side_share_one_header(tmp_path: Path) -> None:
    adaptor = file(str(tmp_path / "out.csv"))
    adaptor.begin("p", "s", 1)
    for part, receipt in written(adaptor, [(0, [{"a": 1}]), (1, [{"a": 2}])]):
        adaptor.publish(part, receipt)
    assert (tmp_path / "out.csv").read_text() == "a\n1\n2\n"


def test_parts_with_other_columns_are_not_put_under_a_header_that_is_not_theirs(tmp_path: Path) -> None:
    adaptor = file(str(tmp_path / "out.csv"))
    adaptor.begin("p", "s", 1)
    first, second = written(adaptor, [(0, [{"a": 1}]), (1, [{"b": 2}])])
    adaptor.publish(*first)
    with pytest.raises(Unavailable, match="has the columns a, not b"):
        adaptor.publish(*second)
    with pytest.raises(Rejected, match="The field b is not among the columns a") as no:  # tried again, the message is found
        written(adaptor, [(1, [{"b": 2}])])
    assert no.value.offset == 1
    assert (tmp_path / "out.csv").read_text() == "a\n1\n"


def test_an_envelope_keeps_namespace_and_time(tmp_path: Path) -> None:
    adaptor = file(str(tmp_path / "out.jsonl"), envelope=True)
    part = Part(pipeline="p", sink="s", start=0, end=1)
    assert not type(adaptor.writer(part)).takes_text  # the text alone would not tell
    adaptor.begin("p", "s", 1)
    publish(adaptor, 0, [{"_id": 1}])
    assert json.loads((tmp_path / "out.jsonl").read_text()) == {"op": "insert", "namespace": "in", "timestamp": 7, "data": {"_id": 1}}


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
def test_a_folder_of_csv_can_be_read_back(tmp_path: Path, compression: Any) -> None:
    adaptor = file(f"{tmp_path}/out/", format="csv", compression=compression)
    adaptor.begin("p", "s", 1)
    publish(adaptor, 0, [{"a": 1}])
    publish(adaptor, 1, [{"a": 2}])
    assert list(adaptor.rows("")) == [{"a": 1}, {"a": 2}]


def test_a_carriage_return_stays_within_its_cell(tmp_path: Path) -> None:
    adaptor = file(str(tmp_path / "out.csv"))
    adaptor.begin("p", "s", 1)
    publish(adaptor, 0, [{"_id": 1, "a\rb": "x\ry"}, {"_id": 2, "a\rb": "z"}])
    assert (tmp_path / "out.csv").read_bytes() == b'"_id","a\rb"\n"1","x\ry"\n2,z\n'
    assert list(adaptor.rows("")) == [{"_id": 1, "a\rb": "x\ry"}, {"_id": 2, "a\rb": "z"}]


def test_a_csv_file_does_not_begin_with_a_document_that_has_no_fields(tmp_path: Path) -> None:
    adaptor = file(str(tmp_path / "out.csv"))
    adaptor.begin("p", "s", 1)
    with pytest.raises(Rejected, match="without fields") as no:
        written(adaptor, [(3, [{}])])
    assert no.value.offset == 3
    publish(adaptor, 4, [{"a": 1}, {}])
    assert (tmp_path / "out.csv").read_text() == 'a\n1\n""\n'


PLACES = ["out/", "out.jsonl"]


@pytest.mark.parametrize("place", PLACES)
def test_a_part_that_is_gone_before_it_is_published_is_no_success(tmp_path: Path, place: str) -> None:
    adaptor = file(f"{tmp_path}/{place}")
    adaptor.begin("p", "s", 1)
    [(part, receipt)] = written(adaptor, [(0, [{"_id": 1}])])
    Path(receipt["files"][0]).unlink()
    with pytest.raises(Unavailable, match="was removed before its messages were published"):
        adaptor.publish(part, receipt)
    assert adaptor.begin("p", "s", 2) == []


def test_a_part_for_standard_output_that_is_gone_is_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    adaptor = file("-")
    assert adaptor.begin("p", "s", 1) is None  # it holds nothing: only the offset log knows
    [(part, receipt)] = written(adaptor, [(0, [{"_id": 1}])])
    Path(receipt["files"][0]).unlink()
    with pytest.raises(Unavailable, match="was removed"):
        adaptor.publish(part, receipt)


@pytest.mark.parametrize("place", PLACES)
def test_publishing_again_is_no_error(tmp_path: Path, place: str) -> None:
    adaptor = file(f"{tmp_path}/{place}")
    adaptor.begin("p", "s", 1)
    [(part, receipt)] = written(adaptor, [(0, [{"_id": 1}])])
    adaptor.publish(part, receipt)
    adaptor.publish(part, receipt)
    assert list(adaptor.rows("")) == [{"_id": 1}]


@pytest.mark.parametrize("place", PLACES)
def test_a_second_hand_of_the_same_run_sweeps_nothing_of_the_first(tmp_path: Path, place: str) -> None:
    adaptor = file(f"{tmp_path}/{place}")
    adaptor.begin("p", "s", 1)
    [(part, receipt)] = written(adaptor, [(0, [{"_id": 1}])])
    adaptor.begin("p", "s", 1)
    adaptor.publish(part, receipt)
    assert list(adaptor.rows("")) == [{"_id": 1}]
    written(adaptor, [(1, [{"_id": 2}])])
    assert list(tmp_path.rglob("tmp-*"))
    adaptor.begin("p", "s", 2)  # a newer run: nobody may publish it any more
    assert not list(tmp_path.rglob("tmp-*"))


def test_a_range_whose_shares_were_empty_is_forgotten_too(tmp_path: Path) -> None:
    adaptor = file(f"{tmp_path}/out/")
    adaptor.begin("p", "s", 1)
    for bucket in range(2):
        part = Part(pipeline="p", sink="s", start=0, end=9, bucket=bucket, buckets=2, epoch=1, attempt=f"a{bucket}")
        writer = adaptor.writer(part)
        writer.write(Batch(start=0, end=9))
        adaptor.publish(part, writer.finish())
        writer.close()
    assert adaptor.begin("p", "s", 1) == [(0, 9)]
    assert adaptor.part_around("p", "s", 3) == (0, 9)
    adaptor.forget("p", "s", -1, 1)
    assert adaptor.begin("p", "s", 1) == []


def test_a_part_that_comes_in_place_of_a_forgotten_one_counts(tmp_path: Path) -> None:
    adaptor = file(f"{tmp_path}/out/")
    adaptor.begin("p", "s", 1)
    publish(adaptor, 0, [{"_id": 1}, {"_id": 2}])
    assert adaptor.part_around("p", "s", 0) == (0, 2)
    assert adaptor.part_around("p", "s", 1) is None
    adaptor.forget("p", "s", -1, 1)
    assert adaptor.begin("p", "s", 1) == []
    publish(adaptor, 0, [{"_id": 1}, {"_id": 2}])
    assert adaptor.begin("p", "s", 1) == [(0, 2)]


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz", "out.jsonl.zst"])
def test_a_last_line_without_an_end_is_ended_before_anything_is_appended(tmp_path: Path, name: str) -> None:
    from headwater.adaptors.file.line_writer import compressed

    adaptor = file(str(tmp_path / name))
    kind = {".gz": "gzip", ".zst": "zstd"}.get(Path(name).suffix, "none")
    (tmp_path / name).write_bytes(compressed(b'{"old":0}', kind))
    adaptor.begin("p", "s", 1)
    publish(adaptor, 0, [{"_id": 1}])
    publish(adaptor, 1, [{"_id": 2}])
    assert plain(tmp_path / name) == '{"old":0}\n{"_id":1}\n{"_id":2}\n'


def test_what_a_begin_that_died_has_left_in_a_folder_is_not_somebody_elses(tmp_path: Path) -> None:
    (tmp_path / "out" / ".headwater").mkdir(parents=True)
    adaptor = file(f"{tmp_path}/out/", existing="fail")
    assert adaptor.begin("p", "s", 1) == []
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "theirs.jsonl").touch()
    with pytest.raises(AlreadyExists):
        file(f"{tmp_path}/other/", existing="fail").begin("p", "s", 1)


def test_a_link_that_is_overwritten_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "real.jsonl").write_text('{"old":0}\n')
    (tmp_path / "out.jsonl").symlink_to("folder/real.jsonl")
    adaptor = file(str(tmp_path / "out.jsonl"), existing="overwrite")
    adaptor.begin("p", "s", 1)
    publish(adaptor, 0, [{"_id": 1}])
    assert adaptor.begin("p", "s", 1) == [(0, 1)]
    publish(adaptor, 1, [{"_id": 2}])
    assert (tmp_path / "folder" / "real.jsonl").read_text() == '{"_id":1}\n{"_id":2}\n'
    assert (tmp_path / "out.jsonl").is_symlink()


def test_a_folder_is_not_emptied_with_the_folder_or_file_of_another_sink(tmp_path: Path) -> None:
    for inner in (file(f"{tmp_path}/out/inner/"), file(f"{tmp_path}/out/inner.jsonl")):
        (tmp_path / "out").mkdir(exist_ok=True)
        inner.begin("p", "s", 1)
        publish(inner, 0, [{"_id": 1}])
        with pytest.raises(Conflict, match="another sink keeps its notes"):
            file(f"{tmp_path}/out/", existing="overwrite").begin("q", "s", 1)
        assert list(inner.rows("")) == [{"_id": 1}]


def test_a_single_file_forgets_what_comes_again(tmp_path: Path) -> None:
    adaptor = file(str(tmp_path / "out.jsonl"))
    adaptor.begin("p", "s", 1)
    publish(adaptor, 0, [{"_id": 1}, {"_id": 2}])
    assert adaptor.begin("p", "s", 1) == [(0, 2)]
    adaptor.forget("p", "s", 0, 1)
    assert adaptor.begin("p", "s", 1) == [(0, 1)]
    publish(adaptor, 1, [{"_id": 2}])
    assert list(adaptor.rows("")) == [{"_id": 1}, {"_id": 2}, {"_id": 2}]


def tables(folder: Path) -> list[dict[str, Any]]:
    return [row for one in sorted(folder.glob("part-*")) for row in pq.ParquetFile(one).read().to_pylist()]


@pytest.mark.parametrize(
    ("documents", "rows"),
    [
        ([{}, {}], [{"_empty": None}] * 2),
        ([{"a": None}, {"a": None}], [{"_empty": None}] * 2),
        ([{"_id": 1, "meta": {}}], [{"_id": 1}]),
        ([{"_id": 1, "meta": {"deep": {}}}], [{"_id": 1}]),
        ([{"_id": 1, "meta": [{}]}], [{"_id": 1, "meta": [None]}]),
        ([{"_id": 1, "meta": {}}, {"_id": 2, "meta": {"x": 1}}], [{"_id": 1, "meta": {"x": None}}, {"_id": 2, "meta": {"x": 1}}]),
        ([{"n": 2**70}, {"n": -1}], [{"n": 2**70}, {"n": -1}]),
    ],
    ids=["no fields", "only nulls", "an object without fields", "one within another", "one in a list", "beside one with fields", "long"],
)
def test_every_document_is_a_row_of_a_table(tmp_path: Path, documents: list[dict[str, Any]], rows: list[dict[str, Any]]) -> None:
    adaptor = file(f"{tmp_path}/out/", format="parquet")
    adaptor.begin("p", "s", 1)
    publish(adaptor, 0, documents)
    assert tables(tmp_path / "out") == rows


def test_documents_without_a_value_join_the_table_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.adaptors.file.parquet_writer._ROWS", 1)  # each batch a table of its own
    adaptor = file(f"{tmp_path}/out/", format="parquet")
    adaptor.begin("p", "s", 1)
    part = Part(pipeline="p", sink="s", start=0, end=3, epoch=1, attempt="a")
    writer = adaptor.writer(part)
    for at, one in enumerate([{"a": 1, "b": "x"}, {}, {"b": "y"}]):
        writer.write(Batch(start=at, end=at + 1, messages=[Message("in", one, offset=at)]))
    adaptor.publish(part, writer.finish())
    assert len(list((tmp_path / "out").glob("part-*"))) == 1
    assert tables(tmp_path / "out") == [{"a": 1, "b": "x"}, {"a": None, "b": None}, {"a": None, "b": "y"}]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ([10**38], r"The column v can have no type that holds \[1000"),
        ([1, "a"], r"The column v can have no type that holds \[1,\"a\"\] \(list of any\)"),
        ({"$numberDecimal": "NaN"}, "The column v can have no type that holds .*NaN.* .decimal."),
    ],
)
def test_what_a_table_cannot_hold_is_said_of_its_message(tmp_path: Path, value: Any, why: str) -> None:
    adaptor = file(f"{tmp_path}/out/", format="parquet")
    adaptor.begin("p", "s", 1)
    with pytest.raises(Rejected, match=why) as no:
        written(adaptor, [(7, [{"v": None}, {"v": value}])])
    assert no.value.offset == 8
    assert "omit(...)" in no.value.hint


@pytest.mark.parametrize("place", ["there/", "there/below/", "there/x.jsonl"])
def test_a_file_in_the_place_of_a_folder_is_a_mistake_of_the_pipelines_file(tmp_path: Path, place: str) -> None:
    (tmp_path / "there").write_text("mine")
    sink = file(f"{tmp_path}/{place}")
    with pytest.raises(BadConfig, match="there is a file of that name"):
        sink.check("sink", Namespaces())
    with pytest.raises(BadConfig, match="there is a file of that name"):
        sink.owner("p#1", "s")
    assert (tmp_path / "there").read_text() == "mine"


@pytest.mark.parametrize("name", ["owner.json", "lock"])
def test_a_folder_in_the_place_of_a_file_of_ours_is_told_and_not_waited_for(tmp_path: Path, name: str) -> None:
    (tmp_path / "o/.headwater" / name).mkdir(parents=True)
    with pytest.raises(Damaged, match=rf"o/.headwater/{name} is a folder, and must be a file"):
        file(f"{tmp_path}/o/").begin("p#1", "s", 1)


def test_a_folder_for_the_work_that_somebody_removed_is_no_crash(tmp_path: Path) -> None:
    adaptor = file(str(tmp_path / "out.jsonl"))
    adaptor.begin("p", "s", 1)
    [(part, receipt)] = written(adaptor, [(0, [{"_id": 1}])])
    shutil.rmtree(tmp_path / ".out.jsonl.headwater")
    with pytest.raises(Unavailable):
        adaptor.publish(part, receipt)


@pytest.mark.parametrize("place", ["out.csv", "tables/"])
def test_what_is_given_back_can_be_compared(tmp_path: Path, place: str) -> None:
    adaptor = file(f"{tmp_path}/{place}", format="auto" if place == "out.csv" else "parquet")
    documents = [
        {"_id": 1, "a": 1, "b": Decimal("1.10"), "c": None, "d": True},
        {"_id": 2, "a": 2.5, "b": Decimal("1.5")},
        {"_id": 3, "c": {"$date": "2026-11-16T04:00:00.000Z"}, "d": None},
        {"_id": 4, "a": 1e300, "c": {"$date": 1000}},
    ]
    adaptor.begin("p", "s", 1)
    publish(adaptor, 0, documents)
    assert [values.canonical(values.extended(one)) for one in adaptor.rows("")] == [
        values.canonical(values.extended(adaptor.stored(one))) for one in documents
    ]
    assert adaptor.stored(documents[0])["_id"] == 1
    assert [one["a"] for one in adaptor.rows("") if "a" in one][:2] == [1, 2.5]


@pytest.mark.parametrize("as_text", [True, False])
def test_floats_and_decimals_are_plain_numbers_of_json(tmp_path: Path, as_text: bool) -> None:
    data = {"_id": 1, "f": 1.0, "zero": -0.0, "d": Decimal("1.20"), "whole": Decimal(5), "nan": float("nan"), "big": 1e22}
    adaptor, part = file(str(tmp_path / "out.jsonl")), Part(pipeline="p", sink="s", start=0, end=1, epoch=1, attempt="a")
    adaptor.begin("p", "s", 1)
    with closing(adaptor.writer(part)) as writer:
        if as_text:
            assert writer.write_text(Batch(start=0, end=1, values=[values.store(data)]))
        else:
            writer.write(Batch(start=0, end=1, messages=[Message("in", data, offset=0)]))
        adaptor.publish(part, writer.finish())
    assert (tmp_path / "out.jsonl").read_text() == (
        '{"_id":1,"f":1.0,"zero":-0.0,"d":1.20,"whole":5,"nan":{"$numberDouble":"NaN"},"big":1e22}\n'
    )
    [held] = adaptor.rows("")
    assert values.canonical(held) == values.canonical(adaptor.stored(data))
    assert values.canonical(adaptor.stored(data | {"f": 1})) != values.canonical(held)  # 1.0 is not 1
