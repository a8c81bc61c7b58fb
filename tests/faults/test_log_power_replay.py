"""The power goes between any two system calls of a recorded life of a log, whichever code made them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random

import pytest
from power_replay import cuts, live
from strace import Call, Strace
from traced_disk import Cut, Disk, File, Folder, Written

LIVES = int(os.environ.get("SOAK_REPLAYS", "3"))
STEPS, MOMENTS = 30, 50


@pytest.mark.parametrize("seed", range(LIVES))
def test_what_was_acknowledged_before_the_cut_is_there_after_it(memory_path: Path, tmp_path: Path, strace: Strace, seed: int) -> None:
    (memory_path / "cuts").mkdir()
    problems = cuts(live(strace, memory_path, seed, STEPS), memory_path / "cuts", Random(seed), MOMENTS)
    if problems:
        kept = shutil.copytree(memory_path, tmp_path / "kept")
        pytest.fail(f"seed {seed}: {len(problems)} problems; the files are kept in {kept}:\n" + "\n".join(problems[:5]), pytrace=False)


# -- the disk that is built ---------------------------------------------------------------------------------


def called(name: str, arguments: str, result: int = 0) -> Call:
    return Call(1, name, arguments, result, begins=True, ends=True)


def quoted(text: str) -> str:
    return '"' + "".join(f"\\x{byte:02x}" for byte in text.encode()) + '"'


def disk_with_a_file() -> Disk:
    disk = Disk(Path("/r"), Path("/n"))
    disk.apply(called("openat", f"AT_FDCWD, {quoted('/r/a')}, O_RDWR|O_CREAT, 0644", 3))
    disk.apply(called("pwrite64", f"3, {quoted('old')}, 3, 0", 3))
    return disk


def left(disk: Disk, into: Path, fate: str, seed: int = 0) -> dict[str, bytes]:
    folder = into / f"{fate}-{seed}"
    disk.build(folder, fate, Random(seed))  # type: ignore[arg-type]
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_bytes_need_a_sync_of_the_file_and_names_one_of_the_folder(tmp_path: Path) -> None:
    disk = disk_with_a_file()
    disk.apply(called("fdatasync", "3"))
    assert left(disk, tmp_path, "lost") == {}
    assert left(disk, tmp_path, "kept") == {"a": b"old"}
    disk.apply(called("openat", f"AT_FDCWD, {quoted('/r')}, O_RDONLY|O_DIRECTORY", 4))
    disk.apply(called("fsync", "4"))
    disk.apply(called("pwrite64", f"3, {quoted('new')}, 3, 0", 3))
    disk.apply(called("rename", f"{quoted('/r/a')}, {quoted('/r/b')}"))
    assert left(disk, tmp_path / "2", "lost") == {"a": b"old"}
    assert left(disk, tmp_path / "2", "kept") == {"b": b"new"}
    mixed = [left(disk, tmp_path / "2", "mixed", seed) for seed in range(40)]
    assert {name for found in mixed for name in found} == {"a", "b"}
    assert {data for found in mixed for data in found.values()} == {b"old", b"new"}


def test_a_sync_covers_what_was_written_before_it_began_and_counts_once_it_has_ended(tmp_path: Path) -> None:
    disk = disk_with_a_file()
    disk.apply(Call(1, "fdatasync", "3", None, begins=True, ends=False))
    file = disk.top.names()["a"]
    assert isinstance(file, File)
    assert file.durable == b""
    disk.apply(called("ftruncate", "3, 1"))
    disk.apply(Call(1, "fdatasync", "3", 0, begins=False, ends=True))
    assert (file.durable, file.pending) == (b"old", [Cut(1)])


def test_pages_reach_the_disk_in_any_order_and_a_cut_off_page_never_comes_back_behind_it() -> None:
    file = File(b"a" * 8192, [Written(0, b"b" * 8192), Cut(100), Written(4096, b"c" * 4096)])
    found = {file.after_cut("mixed", Random(seed)) for seed in range(300)}
    assert {len(one) for one in found} == {8192, 100}
    assert any(one[:1] == b"a" and one[4096:4097] == b"b" for one in found)
    assert any(one[:1] == b"b" and one[4096:4097] == b"a" for one in found)
    ended = {one for one in found if one[4096:] == b"c" * 4096}
    assert any(one[100:4096].strip(b"\0") == b"" for one in ended)


def test_a_renamed_folder_is_under_one_of_its_names() -> None:
    inside = Folder()
    folder = Folder({"t": inside}, [[("t", None), ("gone", inside)], [("t", Folder())]])
    for seed in range(30):
        names = folder.after_cut("mixed", Random(seed))
        assert sum(one is inside for one in names.values()) == 1
