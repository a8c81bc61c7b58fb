"""A pipeline that would write to what it reads: refused before the first write, with the source as it was."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from headwater.core.errors import BadConfig
from headwater.core.settings import Settings, SparkSettings
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline import Message, Pipeline, python, remap
from headwater.pipeline.adaptors import file, headwater, s3, sqlite
from headwater.pipeline.message import Op
from headwater.pipeline.operating.preflight import preflight
from headwater.pipeline.overlap import OverlapCheck, SinkOverlap
from headwater.pipeline.running.run import Run
from headwater.pipeline.sink_adaptor import CanWrite
from headwater.pipeline.transform import Transform

TEXT = "".join(f'{{"_id":{n}}}\n' for n in range(8))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.jsonl").write_text(TEXT)
    return tmp_path


def run(pipeline: Pipeline, *, again: bool = False) -> str:
    with EmbeddedLog(Path("data")) as log:
        return Run(pipeline, log, Settings(data=Path("data"), spark=SparkSettings(start="never")), again=again).go().state


def of(*sinks: CanWrite, source: str = "in.jsonl") -> Pipeline:
    pipeline = Pipeline("p")
    rows = pipeline.source("in", file(source))
    for number, sink in enumerate(sinks):
        rows.save(f"out{number}", sink)
    return pipeline


def test_a_sink_that_overwrites_does_not_delete_the_source() -> None:
    for sink in (file("./in.jsonl", existing="overwrite"), file("./", existing="overwrite"), file("in.jsonl", existing="overwrite")):
        pipeline = of(sink)
        assert "which the same pipeline reads" in preflight(pipeline)["checks"][1]["said"]
        with pytest.raises(BadConfig, match="which the same pipeline reads"):
            run(pipeline)
        assert Path("in.jsonl").read_text() == TEXT


@pytest.mark.parametrize("link", [os.symlink, os.link, lambda old, new: None])
def test_a_source_is_not_doubled_through_a_link_or_another_spelling(link: Callable[[str, str], None], folder: Path) -> None:
    link("in.jsonl", "link.jsonl")
    name = "link.jsonl" if Path("link.jsonl").exists() else str(folder / "in.jsonl")
    with pytest.raises(BadConfig, match="which the same pipeline reads"):
        run(of(file(name)))
    assert Path("in.jsonl").read_text() == TEXT


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_two_sinks_do_not_write_one_file(link: Callable[[str, str], None]) -> None:
    Path("out.jsonl").write_text("")
    link("out.jsonl", "link.jsonl")
    pipeline = of(file("out.jsonl"), file("link.jsonl"))
    assert [one["ok"] for one in preflight(pipeline)["checks"]] == [True, False, False]
    with pytest.raises(BadConfig, match=r"The sinks out. and out. would write to the same place"):
        run(pipeline)
    assert Path("out.jsonl").read_text() == ""


@pytest.mark.parametrize("other", [sqlite("./out.db", table="T"), sqlite("link.db", table="t")])
def test_two_sinks_do_not_write_one_table_and_the_others_are_left_alone(folder: Path, other: CanWrite) -> None:
    """They would replace each other's rows. A run that is refused has created nothing."""
    Path("link.db").symlink_to("out.db")
    pipeline = Pipeline("p")
    rows = pipeline.source("in", file("in.jsonl"))
    rows.save("apart", sqlite("apart.db"))
    rows.save("out1", sqlite("out.db", table="t"))
    rows.save("out2", other)
    with pytest.raises(BadConfig, match=r"The sinks out1 and out2 would write to the same place"):
        run(pipeline)
    assert sorted(one.name for one in folder.iterdir() if one.suffix == ".db") == ["link.db"]
    assert not Path("out.db").exists()


def test_two_sinks_may_write_two_tables_of_one_database() -> None:
    pipeline = Pipeline("p")
    rows = pipeline.source("in", file("in.jsonl"))
    rows.save("out1", sqlite("out.db", table="t"))
    rows.save("out2", sqlite("out.db", table="u"))
    run(pipeline)


@pytest.mark.parametrize(
    "sinks",
    [
        (sqlite("one.db"), file("one.db", format="jsonl")),
        (file("one.db", format="jsonl"), sqlite("./one.db", table="t")),
        (file("f/"), file("f/one.jsonl")),
        (file("f/"), file("f/day/")),
        (file("f/day/"), file("f/", format="parquet")),
        (file("f/"), sqlite("f/one.db")),
        (s3("s3://b/f/"), s3("s3://b/f/day")),
    ],
)
def test_two_sinks_do_not_write_to_one_place_nor_one_inside_the_other(sinks: tuple[CanWrite, CanWrite]) -> None:
    with pytest.raises(BadConfig, match=r"The sinks out. and out. would write to the same place"):
        OverlapCheck(of(*sinks)).forbidden(of(*sinks).sinks["out1"])


def test_sinks_beside_each_other_and_tables_of_one_database_are_no_same_place() -> None:
    sinks = (file("f/"), file("f.jsonl"), file("ff/"), sqlite("one.db", table="a"), sqlite("one.db", table="b"))
    assert [OverlapCheck(of(*sinks)).forbidden(sink) for sink in of(*sinks).sinks.values()] == [()] * 5


def test_a_database_is_not_written_where_a_source_would_read_it_as_a_file() -> None:
    Path("in").mkdir()
    Path("in/b.jsonl").write_text(TEXT)
    with pytest.raises(BadConfig, match=r"would write to sqlite\(.*a\.jsonl.*, which the same pipeline reads"):
        run(of(sqlite("in/a.jsonl"), source="in/"))
    assert not Path("in/a.jsonl").exists()


def test_the_error_names_a_folder_that_is_written_where_it_is_read() -> None:
    Path("in").mkdir()
    Path("in/b.jsonl").write_text(TEXT)
    with pytest.raises(BadConfig, match=r"Sink out0 would write to file\(.*in.*, which the same pipeline reads"):
        run(of(file("in/day/"), source="in/"))


def test_the_sinks_of_two_pipelines_do_not_write_one_file_through_a_link() -> None:
    os.symlink("out.jsonl", "link.jsonl")
    assert run(of(file("out.jsonl"))) == "done"
    other = Pipeline("q")
    other.source("in", file("in.jsonl")).save("out", file("link.jsonl"))
    with pytest.raises(Exception, match=r"belongs to sink out0 of pipeline p"):
        run(other)
    assert Path("out.jsonl").read_text() == TEXT


def table(*transforms: Transform, sink: str = "db", chosen: str = "^t$", **options: str) -> Pipeline:
    if not Path("db").exists():
        with closing(sqlite3.connect("db")) as db, db:
            db.execute("create table t (_id integer primary key, n)")
            db.execute("insert into t values (1, 1)")
        os.symlink("db", "link")
    pipeline = Pipeline("p")
    pipeline.source("in", sqlite("db"), namespace=chosen).transform(*transforms).save("out", sqlite(sink, **options))
    return pipeline


def rows(name: str) -> list[tuple[int, int]]:
    with closing(sqlite3.connect("db")) as db:
        return db.execute(f"select _id, n from {name}").fetchall()


def test_one_table_of_a_database_may_be_written_from_another() -> None:
    assert run(table(remap({"t": "u"}), sink="link")) == "done"
    assert rows("u") == [(1, 1)]


def test_a_table_that_the_sink_has_made_is_read_by_a_new_copy_alone() -> None:
    assert run(table(remap({"t": "u"}), chosen=".*")) == "done"
    assert run(table(remap({"t": "u"}), chosen=".*")) == "done"
    with pytest.raises(BadConfig, match="would write to u, which the same pipeline reads"):
        run(table(remap({"t": "u"}), chosen=".*"), again=True)
    assert rows("u") == [(1, 1)]


def test_a_table_is_the_same_one_through_a_link_in_other_letters_and_for_all_namespaces() -> None:
    for pipeline in (table(sink="link"), table(remap({"t": "T"})), table(sink="link", table="t")):
        assert not preflight(pipeline)["checks"][1]["ok"]
        with pytest.raises(BadConfig, match="which the same pipeline reads"):
            run(pipeline)
    assert rows("t") == [(1, 1)]


def test_where_a_function_sends_a_message_is_seen_before_it_is_written() -> None:
    def back(message: Message) -> Message:
        return Message("t", message.data | {"n": 2}, Op.INSERT, offset=message.offset)

    pipeline = table(remap({"t": "u"}), python(back))
    assert preflight(pipeline)["checks"][1]["ok"]
    with pytest.raises(BadConfig, match="which the same pipeline reads"):
        run(pipeline)
    assert rows("t") == [(1, 1)]


def test_a_file_is_not_written_over_a_database_that_is_read() -> None:
    table()
    pipeline = Pipeline("p")
    pipeline.source("in", sqlite("db")).save("out", file("link", format="jsonl", existing="overwrite"))
    with pytest.raises(BadConfig, match="which the same pipeline reads"):
        run(pipeline)
    assert rows("t") == [(1, 1)]


def test_a_topic_is_the_same_one_at_another_address(folder: Path) -> None:
    os.symlink("other", "linked")
    with EmbeddedLog(Path("other")) as log:
        log.create_topic("a")
    pipeline = Pipeline("p")
    source = headwater(str(folder / "other"), topic="a")
    pipeline.source("in", source).save("out", headwater(str(folder / "linked"), topic="a"))
    with pytest.raises(BadConfig, match=r"which the same pipeline reads|would never end"):
        run(pipeline)


def test_systems_that_cannot_meet_are_not_asked() -> None:
    pipeline = Pipeline("p")
    pipeline.source("in", file("missing.jsonl")).save("out", headwater("data", topic="a"))
    check = OverlapCheck(pipeline)
    assert check.known
    assert check.check(pipeline.sinks["out"]) == ()


def test_a_source_that_cannot_be_asked_is_asked_again() -> None:
    pipeline = of(file("late.jsonl"), source="late.jsonl*")
    check = OverlapCheck(pipeline)
    watched = SinkOverlap(check, pipeline.sinks["out0"])
    assert watched.forbidden(lambda: 0) == ()
    assert not check.known
    Path("late.jsonl").write_text(TEXT)
    assert watched.forbidden(lambda: 0) == ()  # nothing was read since
    with pytest.raises(BadConfig):
        watched.forbidden(lambda: 8)
    assert check.known
