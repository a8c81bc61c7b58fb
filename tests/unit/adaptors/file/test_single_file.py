"""One file that others touch: renamed, emptied, cut, added to, deleted. The sink says so, and writes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from headwater.adaptors.file.adaptor import File
from headwater.adaptors.file.file_notes import FileNote, FileNotes
from headwater.core.errors import Differs
from headwater.core.files import Files
from headwater.pipeline.adaptors import file
from headwater.pipeline.message import Message
from headwater.pipeline.sink_adaptor import Batch, Part


def publish(adaptor: File, start: int, end: int) -> None:
    part = Part(pipeline="p#1", sink="s", start=start, end=end, epoch=1, attempt=f"a{start}")
    with closing(adaptor.writer(part)) as writer:
        writer.write(Batch(start=start, end=end, messages=[Message("n", {"_id": n}, offset=n) for n in range(start, end)]))
        receipt = writer.finish()
    adaptor.publish(part, receipt)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out.jsonl"


@pytest.fixture
def sink(path: Path) -> File:
    """A sink that has written six documents."""
    adaptor = file(str(path))
    assert isinstance(adaptor, File)
    adaptor.begin("p#1", "s", 1)
    publish(adaptor, 0, 4)
    publish(adaptor, 4, 6)
    return adaptor


def lines(numbers: range) -> str:
    return "".join(f'{{"_id":{n}}}\n' for n in numbers)


def rotated(path: Path) -> None:
    path.rename(path.with_suffix(".1"))


def made_anew(path: Path) -> None:
    rotated(path)
    path.write_bytes(path.with_suffix(".1").read_bytes())


def emptied(path: Path) -> None:
    os.truncate(path, 0)


def cut(path: Path) -> None:
    os.truncate(path, 15)


def added_to(path: Path) -> None:
    with path.open("a") as opened:
        opened.write("mine\n")


CHANGES: dict[Callable[[Path], None], str] = {
    rotated: "is gone",
    made_anew: "another file than the one that this sink has written",
    emptied: "is 0 bytes long, and this sink has left it 60 bytes long: it was emptied or cut",
    cut: "is 15 bytes long",
    added_to: "is 65 bytes long, and this sink has left it 60 bytes long: somebody has added to it",
}


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_file_that_others_changed_is_left_alone(sink: File, path: Path, change: Callable[[Path], None]) -> None:
    assert path.read_text() == lines(range(6))
    change(path)
    before = path.read_bytes() if path.exists() else None
    for call in (
        lambda: sink.held("p#1", "s"),
        lambda: sink.begin("p#1", "s", 1),
        lambda: publish(sink, 6, 9),
    ):
        with pytest.raises(Differs, match=CHANGES[change]) as error:
            call()
        assert "offset p mark s 5 --why" in error.value.hint
    assert (path.read_bytes() if path.exists() else None) == before


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_an_operator_takes_the_file_as_it_is(sink: File, path: Path, change: Callable[[Path], None]) -> None:
    change(path)
    before = path.read_text() if path.exists() else ""
    if change is cut:
        before += "\n"  # the line that was cut stays one
    sink.forget("p#1", "s", 5, 1)
    assert sink.begin("p#1", "s", 2) == [(0, 6)]
    publish_as(sink, 6, 9, epoch=2)
    assert path.read_text() == before + lines(range(6, 9))
    assert sink.held("p#1", "s") == [(0, 9)]


def publish_as(adaptor: File, start: int, end: int, *, epoch: int) -> None:
    part = Part(pipeline="p#1", sink="s", start=start, end=end, epoch=epoch, attempt="again")
    with closing(adaptor.writer(part)) as writer:
        writer.write(Batch(start=start, end=end, messages=[Message("n", {"_id": n}, offset=n) for n in range(start, end)]))
        receipt = writer.finish()
    adaptor.publish(part, receipt)


def test_the_bytes_of_a_dead_run_are_cut_off_and_those_of_others_are_not(sink: File, path: Path) -> None:
    notes = FileNotes(Files(), path.parent / f".{path.name}.headwater" / "notes.jsonl")
    noted = notes.last()
    assert noted is not None
    notes.write(FileNote(noted.start, noted.end, 60, 90, noted.inode))  # thirty bytes were to be appended
    with path.open("a") as opened:
        opened.write('{"_id":6}\n{"_i')
    assert sink.held("p#1", "s") == [(0, 6)]
    assert path.stat().st_size == 74
    assert sink.begin("p#1", "s", 1) == [(0, 6)]
    assert path.read_text() == lines(range(6))
    notes.write(FileNote(noted.start, noted.end, 60, 65, noted.inode))
    with path.open("a") as opened:
        opened.write("more than that\n")
    with pytest.raises(Differs, match="somebody has added to it"):
        sink.begin("p#1", "s", 1)
    assert path.read_text().endswith("more than that\n")


def test_a_file_that_is_gone_or_cut_can_be_compared(sink: File, path: Path) -> None:
    assert len(list(sink.rows("n"))) == 6
    cut(path)
    with pytest.raises(Differs, match=r"out.jsonl holds what this sink has not written"):
        list(sink.rows("n"))
    rotated(path)
    assert list(sink.rows("n")) == []


def test_a_file_that_appears_before_the_first_document_is_left_alone(path: Path) -> None:
    adaptor = file(str(path))
    assert isinstance(adaptor, File)
    adaptor.begin("p#1", "s", 1)
    path.write_text("mine\n")
    with pytest.raises(Differs, match="somebody has added to it"):
        publish(adaptor, 0, 2)
    assert path.read_text() == "mine\n"


def test_messages_that_were_passed_over_leave_no_hole_in_what_is_held(sink: File) -> None:
    publish(sink, 8, 9)  # 6 and 7 were put aside
    assert sink.begin("p#1", "s", 1) == [(0, 9)]
