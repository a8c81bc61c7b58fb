"""Files and folders: when a sink would write to what a source reads, whatever the paths look like."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headwater.adaptors.file.adaptor import File, file
from headwater.core.errors import BadConfig
from headwater.pipeline.location import EVERYWHERE
from headwater.pipeline.namespaces import Namespaces


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: in.jsonl, two links to it, and a folder with one more file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.jsonl").write_text('{"_id":1}\n')
    os.symlink("in.jsonl", "symbolic.jsonl")
    os.link("in.jsonl", "hard.jsonl")
    (tmp_path / "day" / "one").mkdir(parents=True)
    (tmp_path / "day" / "one" / "a.jsonl").write_text('{"_id":2}\n')
    os.symlink("day", "linked")
    return tmp_path


def meet(read: str, written: File | str, namespace: str = ".*") -> bool:
    sink = file(written) if isinstance(written, str) else written
    found = sink.overlaps(file(read).locations(Namespaces(namespace)))
    assert found in ([], [EVERYWHERE])
    return bool(found)


@pytest.mark.parametrize("written", ["in.jsonl", "./in.jsonl", "day/../in.jsonl", "symbolic.jsonl", "hard.jsonl", "file://in.jsonl", "./"])
def test_the_file_that_is_read(written: str, folder: Path) -> None:
    assert meet("in.jsonl", written)
    assert meet(str(folder / "in.jsonl"), written)
    assert meet("hard.jsonl", written)


@pytest.mark.parametrize("written", ["out.jsonl", "out/", "day/", "-", "in.jsonl.copy"])
def test_another_file(written: str) -> None:
    assert not meet("in.jsonl", File(uri=written, format="jsonl"))


@pytest.mark.parametrize(
    ("read", "written", "found"),
    [
        ("day/", "day/", True),
        ("day/", "linked/", True),
        ("day/", "day/out/", True),
        ("day/", "day/out.jsonl", True),
        ("day/one", "linked/one/b.jsonl", True),
        ("day/one/", "day/", True),  # `overwrite` would delete what is read
        ("day/", "day/_out/", False),
        ("day/", "day/.out.jsonl", False),
        ("day/", "daylight/", False),
    ],
)
def test_a_folder_that_is_read(read: str, written: str, found: bool) -> None:
    assert meet(read, written) is found


@pytest.mark.parametrize(
    ("read", "written", "found"),
    [
        ("*.jsonl", "out.jsonl", True),
        ("*.jsonl", "out.csv", False),
        ("*.jsonl", "out/", False),
        ("day/*/*.jsonl", "day/two/", True),
        ("day/*/*.jsonl", "day/two/b.jsonl", True),
        ("day/*/*.jsonl", "linked/two/b.jsonl", True),
        ("day/**/*.jsonl", "day/two/three/b.jsonl", True),
        ("day/**/*.jsonl", "b.jsonl", False),
        ("day/*/*.jsonl", "day/", True),
    ],
)
def test_a_pattern_that_is_read(read: str, written: str, found: bool) -> None:
    assert meet(read, written) is found


def test_a_file_whose_namespace_is_not_chosen_is_not_read() -> None:
    assert not meet("day/", "day/out.jsonl", "^one/")
    assert not meet("day/", "day/out/", "^one/")
    assert meet("day/", "day/one/out.jsonl", "^one/")


def test_the_unfinished_work_of_a_sink_is_no_source(folder: Path) -> None:
    sink = file("day/")
    sink.begin("p#1", "s", 1)
    (folder / "day" / ".headwater" / "tmp-e1-0-1-0of1.x.jsonl").write_text("{}\n")
    for path in ("day/.headwater/", "day/.headwater/tmp-e1-0-1-0of1.x.jsonl"):
        with pytest.raises(BadConfig, match="unfinished work"):
            file(path).plan(Namespaces(), 1)
    assert list(file("day/**/*.jsonl").plan(Namespaces(), 1).ids) == ["one/a"]


def test_two_links_to_one_file_are_one_target() -> None:
    assert {one.name for one in file("symbolic.jsonl").exclusive()} == {one.name for one in file("in.jsonl").exclusive()}
    assert any(one.meets(other) for one in file("hard.jsonl").exclusive() for other in file("in.jsonl").exclusive())
    assert any(one.meets(other) for one in file("day/").exclusive() for other in file("day/out.jsonl").exclusive())
    emptied = file("day/", existing="overwrite")
    assert any(one.meets(other) for one in emptied.exclusive() for other in file("day/out.jsonl").exclusive())
    assert file("-").exclusive() == []
