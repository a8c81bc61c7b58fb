"""A source that is not what the last run has read: taken in where that is safe, told or refused where it is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from ground import gone, piped, rows

from headwater.core.errors import Conflict, Differs, NotFound, Unsupported
from headwater.core.settings import Settings, SparkSettings
from headwater.log import Log
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline import Pipeline
from headwater.pipeline.adaptor import About
from headwater.pipeline.adaptors import file, sqlite
from headwater.pipeline.message import Message, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.running import reader as reading
from headwater.pipeline.running.run import Run
from headwater.pipeline.source_adaptor import CanCopy, CanTail, CopyPlan, Piece, Slice, SourceAdaptor


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with EmbeddedLog(tmp_path / "data") as log:
        yield log


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files, of one document each."""
    (tmp_path / "in").mkdir()
    for number, name in enumerate("ab"):
        (tmp_path / "in" / f"{name}.jsonl").write_text(f'{{"_id":{number},"v":1}}\n')
    return tmp_path


def read(pipeline: Pipeline, log: Log, folder: Path, **options: Any) -> tuple[int, str]:
    """How many records a run has read, and its notices."""
    result = gone(log, folder, pipeline, **options)
    return result.read, " ".join(result.notices)


def from_file(folder: Path, path: str = "in/", name: str = "s", namespace: str = ".*") -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.source(name, file(str(folder / path) + ("/" if path.endswith("/") else "")), namespace=namespace).save(
        "db", sqlite(str(folder / "o.db"))
    )
    return pipeline


def test_a_source_that_is_what_it_was_is_not_read_again(log: Log, folder: Path) -> None:
    assert read(from_file(folder), log, folder) == (2, "")
    assert read(from_file(folder), log, folder) == (0, "")


def test_a_new_file_of_the_folder_is_copied_as_well(log: Log, folder: Path) -> None:
    read(from_file(folder), log, folder)
    (folder / "in/c.jsonl").write_text('{"_id":7}\n{"_id":8}\n')
    number, told = read(from_file(folder), log, folder)
    assert number == 2
    assert "c.jsonl now, too" in told
    assert rows(folder / "o.db", "select _id from c order by 1") == [(7,), (8,)]
    assert read(from_file(folder), log, folder) == (0, "")


def test_a_wider_namespace_is_copied_as_well_and_a_narrower_one_is_told(log: Log, folder: Path) -> None:
    read(from_file(folder, namespace="^a$"), log, folder)
    number, told = read(from_file(folder), log, folder)
    assert number == 1
    assert "reads the namespaces .* now, and read ^a$" in told
    number, told = read(from_file(folder, namespace="^a$"), log, folder)
    assert number == 0
    assert "What was read of b stays" in told


def test_another_file_is_refused_until_it_is_read_anew(log: Log, folder: Path) -> None:
    read(from_file(folder, "in/a.jsonl"), log, folder)
    for _ in range(2):
        with pytest.raises(Differs, match=r"b\.jsonl\) now, and was") as no:
            read(from_file(folder, "in/b.jsonl"), log, folder)
        assert "--again" in no.value.hint
    assert read(from_file(folder, "in/b.jsonl"), log, folder, again=True)[0] == 1
    assert read(from_file(folder, "in/b.jsonl"), log, folder) == (0, "")


def test_a_file_that_was_moved_is_the_same_source(log: Log, folder: Path) -> None:
    read(from_file(folder, "in/a.jsonl"), log, folder)
    (folder / "moved").mkdir()
    (folder / "in/a.jsonl").rename(folder / "moved/a.jsonl")
    number, told = read(from_file(folder, "moved/a.jsonl"), log, folder)
    assert number == 0
    assert "Reading goes on" in told
    assert read(from_file(folder, "moved/a.jsonl"), log, folder) == (0, "")


def test_another_name_of_the_source_is_told(log: Log, folder: Path) -> None:
    read(from_file(folder), log, folder)
    assert "named t now, and was s" in read(from_file(folder, name="t"), log, folder)[1]
    assert read(from_file(folder, name="t"), log, folder) == (0, "")


def test_a_changed_file_is_told_when_the_rest_is_read_and_copied_anew_by_its_namespace(log: Log, folder: Path) -> None:
    read(from_file(folder), log, folder)
    (folder / "in/b.jsonl").write_text('{"_id":1,"v":2}\n{"_id":9,"v":2}\n')
    (folder / "in/c.jsonl").write_text('{"_id":7}\n')
    with pytest.raises(Differs, match=r"b\.jsonl has changed since its copy") as no:
        read(from_file(folder), log, folder)
    assert "--again b" in no.value.hint
    assert rows(folder / "o.db", "select _id from c") == [(7,)]
    assert read(from_file(folder), log, folder, again="b")[0] == 2
    assert rows(folder / "o.db", "select _id, v from b order by 1") == [(1, 2), (9, 2)]
    assert read(from_file(folder), log, folder) == (0, "")


def test_a_namespace_that_is_not_there_is_not_copied_anew(log: Log, folder: Path) -> None:
    read(from_file(folder), log, folder)
    with pytest.raises(NotFound, match="no namespace z") as no:
        read(from_file(folder), log, folder, again="z")
    assert "a, b" in no.value.hint


@pytest.mark.parametrize("path", ["in/", "in/a.jsonl"])
def test_a_source_that_is_gone_after_its_copy_is_told_and_no_error(log: Log, folder: Path, path: str) -> None:
    read(from_file(folder, path), log, folder)
    for name in "ab":
        (folder / f"in/{name}.jsonl").unlink()
    number, told = read(from_file(folder, path), log, folder)
    assert number == 0
    assert told.startswith("s cannot be read any more: ")
    assert str(folder / "in") in told
    assert "stays in the log and at the sinks" in told


def failing(*given: Any, **options: Any) -> Any:
    raise Conflict("The process ends here, after the plan.")


def test_a_new_file_joins_a_copy_that_is_not_finished(log: Log, folder: Path) -> None:
    settings = Settings(data=folder / "data", spark=SparkSettings(start="never"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "copy_slice", failing)
        with pytest.raises(Conflict):
            Run(from_file(folder), log, settings).go()
    (folder / "in/c.jsonl").write_text('{"_id":7}\n')
    assert read(from_file(folder), log, folder)[0] == 3


class TablesSource(SourceAdaptor["Tables"]):
    """Tables of one row each, and one change of each of them."""

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        names = [name for name in "xyz" if name in chosen]
        cursor = {"at": 5} if self.adaptor.tail else None
        return CopyPlan(identity={"tables": dict.fromkeys(names, 1)}, slices=tuple(Slice(name, {}) for name in names), cursor=cursor)

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        if position is None:
            yield Piece(position=1, messages=[Message(part.namespace, {"_id": 1}, Op.INSERT, 1)])

    def follow(self, cursor: Any, chosen: Namespaces, stopped: Callable[[], bool]) -> Iterator[Piece]:
        for at in range(cursor["at"], 7):
            messages = [Message(name, {"_id": at}, Op.INSERT, 1) for name in "xyz" if name in chosen]
            yield Piece(position={"at": at + 1}, messages=messages)
        yield Piece(position={"at": 7})


class NeverJoining(TablesSource):
    joins = "never"


class Tables(CanCopy, CanTail, frozen=True, kw_only=True):
    kind: ClassVar[str] = "tables"
    about: ClassVar[About] = About(summary="", namespace="", sample="")
    place: str = "here"
    tail: bool = True
    joins_never: bool = False

    def _source(self) -> SourceAdaptor[Any]:
        return (NeverJoining if self.joins_never else TablesSource)(self)


def followed(folder: Path, namespace: str, **options: Any) -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.source("s", Tables(**options), namespace=namespace).save("db", sqlite(str(folder / "o.db")))
    return pipeline


def test_a_wider_namespace_of_a_followed_source_is_copied_and_its_changes_go_on(log: Log, tmp_path: Path) -> None:
    assert read(followed(tmp_path, "x"), log, tmp_path)[0] == 3
    number, told = read(followed(tmp_path, "x|y"), log, tmp_path)
    assert number == 1
    assert "y now, too" in told
    assert rows(tmp_path / "o.db", "select _id from y") == [(1,)]
    assert rows(tmp_path / "o.db", "select _id from x order by 1") == [(1,), (5,), (6,)]


def test_a_wider_namespace_that_cannot_join_is_refused(log: Log, tmp_path: Path) -> None:
    read(followed(tmp_path, "x", joins_never=True), log, tmp_path)
    with pytest.raises(Differs, match="now has y, too") as no:
        read(followed(tmp_path, "x|y", joins_never=True), log, tmp_path)
    assert "--again" in no.value.hint
    with pytest.raises(Unsupported):
        read(followed(tmp_path, "x", joins_never=True), log, tmp_path, again="x")


def test_one_namespace_of_a_followed_source_is_copied_anew(log: Log, tmp_path: Path) -> None:
    read(followed(tmp_path, "x|y"), log, tmp_path)
    assert read(followed(tmp_path, "x|y"), log, tmp_path, again="y")[0] == 1


def test_a_copy_without_a_cursor_is_not_followed_later(log: Log, tmp_path: Path) -> None:
    read(followed(tmp_path, "x", tail=False), log, tmp_path)
    with pytest.raises(Differs, match="without tail=True"):
        read(followed(tmp_path, "x"), log, tmp_path)


def test_an_option_of_the_source_that_has_changed_is_told(log: Log, folder: Path) -> None:
    def pipeline(**options: Any) -> Pipeline:
        return piped(folder, {"db": sqlite(str(folder / "o.db"))}, source=file(str(folder / "in/a.jsonl"), **options))

    read(pipeline(), log, folder)
    assert "Options of s have changed: id" in read(pipeline(id=("v",)), log, folder)[1]
