"""When the watcher looks, and when it does not. Time is moved by hand; the kernel is the real one, unless it has to fail."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.log.embedded.inotify import FolderEvents, Inotify
from headwater.log.embedded.watcher import POLL, SHORT, SWEEP, FolderWatcher, Look
from headwater.testing.clock import ManualClock

NOTHING = FolderEvents(set(), set(), False)


class Part:
    """A partition whose end, and whose batch under way, a test sets."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.end, self.pending, self.wanted = folder, 0, False, True
        folder.mkdir(parents=True)
        self._inode = folder.stat().st_ino
        self._seen = 0
        self.looks = 0

    def write(self) -> None:
        """What a writer does first: the kernel tells it."""
        with (self.folder / "log").open("ab") as file:
            file.write(b"x")

    def look(self, *, sweep: bool = False) -> Look:
        self.looks += 1
        moved, self._seen = self._seen != self.end, self.end
        return Look(moved, self.pending)

    def look_closely(self) -> bool:
        before, self._inode = self._inode, self.folder.stat().st_ino if self.folder.exists() else 0
        return before == self._inode

    def retire(self) -> bool:
        return not self.wanted


class Deaf(Inotify):
    """A kernel that watches and says nothing: of a network's file system, others' writes are not told."""

    def read(self) -> FolderEvents:
        super().read()
        return NOTHING


class Full(Inotify):
    """A kernel whose limit of watches is reached, for a while."""

    room = False

    def add(self, folder: Path) -> int:
        if not Full.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().add(folder)


class Bench:
    """A watcher without its thread: its rounds are run by hand, and the clock moves on by what it wants to rest."""

    def __init__(self, kind: type[Inotify] = Inotify) -> None:
        self.clock = ManualClock()
        self.watcher = FolderWatcher(events=kind, clock=self.clock, threaded=False)
        self.parts: list[Part] = []
        self.rounds = 0

    def add(self, part: Part) -> Part:
        self.watcher.add(part)
        self.parts.append(part)
        return part

    def run(self, seconds: float) -> list[float]:
        """The pauses of so much time."""
        pauses, end = [], self.clock.monotonic() + seconds
        while (now := self.clock.monotonic()) < end:
            pause = self.watcher.round()
            assert pause is not None
            pauses.append(pause)
            self.rounds += 1
            self.clock.advance(min(max(pause, 1e-4), end - now))
        return pauses


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    close(made)


def close(bench: Bench) -> None:
    for part in bench.parts:
        bench.watcher.remove(part)
    assert bench.watcher.round() is None


def test_nothing_is_looked_at_while_nothing_happens_but_for_the_sweeps(bench: Bench, tmp_path: Path) -> None:
    parts = [bench.add(Part(tmp_path / str(number))) for number in range(10)]
    bench.run(10)
    assert {part.looks for part in parts} <= {19, 20}
    assert bench.rounds <= 22


def test_a_write_is_followed_by_looks_until_it_is_durable(bench: Bench, tmp_path: Path) -> None:
    part, other = bench.add(Part(tmp_path / "a")), bench.add(Part(tmp_path / "b"))
    bench.run(0.1)
    part.write()
    part.pending = True
    assert bench.watcher.round() == pytest.approx(SHORT, rel=0.01)
    bench.run(0.003)
    assert 5 <= part.looks <= 8
    part.end, part.pending = 1, False
    bench.run(0.01)
    looks = part.looks
    bench.run(0.3)
    assert part.looks == looks, "it is durable and quiet: nobody looks"
    assert other.looks == 0


def test_a_slow_sync_is_found_out_soon_and_a_dead_writer_costs_little(bench: Bench, tmp_path: Path) -> None:
    part = bench.add(Part(tmp_path / "a"))
    part.write()
    part.pending = True
    pauses = bench.run(1.0)
    assert max(pauses) <= POLL * 1.01, "a sync of a second is known as soon as a short one"
    bench.run(9.0)
    before = part.looks
    bench.run(10.0)
    assert part.looks - before <= 60, "a batch that nobody will sync is looked at no more than a few times a second"


def test_a_write_before_the_tail_has_moved_is_not_taken_for_quiet(bench: Bench, tmp_path: Path) -> None:
    """The kernel tells of the write; for a moment nothing says that a batch is under way."""
    part = bench.add(Part(tmp_path / "a"))
    bench.run(0.1)
    part.write()
    bench.watcher.round()
    part.pending = True
    bench.run(0.004)
    part.end, part.pending = 1, False
    looks = part.looks
    bench.run(0.002)
    assert part.looks > looks


def test_an_end_that_moved_without_a_word_is_found_by_the_sweep_and_looked_at_often_from_then_on(tmp_path: Path) -> None:
    bench = Bench(Deaf)
    part = bench.add(Part(tmp_path / "a"))
    bench.run(2 * SWEEP)
    assert part.looks <= 2
    part.end = 1
    bench.run(SWEEP + 0.01)
    before = part.looks
    pauses = bench.run(1.0)
    assert part.looks - before >= 1.0 / POLL * 0.9
    assert max(pauses) <= POLL * 1.01
    close(bench)


def test_a_kernel_that_speaks_again_is_trusted_again(bench: Bench, tmp_path: Path) -> None:
    part = bench.add(Part(tmp_path / "a"))
    part.end = 1  # as if it had become durable without a write
    bench.run(SWEEP + 0.1)
    before = part.looks
    part.write()
    bench.run(0.1)
    assert part.looks > before
    before = part.looks
    bench.run(0.3)
    assert part.looks == before


def test_an_own_commit_before_a_sweep_casts_no_doubt_on_the_kernel(bench: Bench, tmp_path: Path) -> None:
    """Another thread's batch is durable between hearing and looking: its write was told, and is heard a moment later."""
    part = bench.add(Part(tmp_path / "a"))

    class Late(Part):
        def look(self, *, sweep: bool = False) -> Look:
            if self.looks == 0:
                self.write()
                self.end = 1
            return super().look()

    late = bench.add(Late(tmp_path / "late"))
    bench.run(SWEEP + 0.05)
    looks = late.looks
    bench.run(0.3)
    assert late.looks == looks
    assert part.looks == 1


def test_after_an_overflow_everything_is_looked_at(tmp_path: Path) -> None:
    class Overflowing(Inotify):
        spilt = False

        def read(self) -> FolderEvents:
            super().read()
            spilt, Overflowing.spilt = Overflowing.spilt, False
            return NOTHING._replace(overflow=spilt)

    bench = Bench(Overflowing)
    parts = [bench.add(Part(tmp_path / str(number))) for number in range(5)]
    bench.run(0.1)
    assert [part.looks for part in parts] == [0] * 5
    Overflowing.spilt = True
    bench.watcher.round()
    assert [part.looks for part in parts] == [1] * 5
    close(bench)


def test_where_the_kernel_has_no_room_it_is_looked_at_often_until_there_is(tmp_path: Path) -> None:
    Full.room = False
    bench = Bench(Full)
    part = bench.add(Part(tmp_path / "a"))
    bench.run(1.0)
    before = part.looks
    pauses = bench.run(1.0)
    assert max(pauses) <= POLL * 1.01
    assert part.looks - before >= 1.0 / POLL * 0.9
    Full.room = True
    bench.run(SWEEP + 0.1)
    before = part.looks
    bench.run(0.3)
    assert part.looks == before
    part.write()
    bench.watcher.round()
    assert part.looks == before + 1
    close(bench)


def test_without_the_kernels_help_at_all_it_is_looked_at_often(tmp_path: Path) -> None:
    class Nothing(Inotify):
        def __init__(self) -> None:
            raise OSError(errno.EMFILE, "Too many open files")

    bench = Bench(Nothing)
    part = bench.add(Part(tmp_path / "a"))
    bench.run(1.0)
    assert part.looks >= 1.0 / POLL * 0.9
    close(bench)


def test_a_folder_made_anew_is_watched_anew(bench: Bench, tmp_path: Path) -> None:
    part = bench.add(Part(tmp_path / "a"))
    shutil.rmtree(part.folder)
    bench.run(0.1)
    part.folder.mkdir()
    bench.run(SWEEP + 0.1)
    before = part.looks
    bench.run(0.3)
    assert part.looks - before <= 1
    before = part.looks
    part.write()
    bench.watcher.round()
    assert part.looks == before + 1


def test_two_who_watch_one_folder_are_both_told_and_one_may_leave(bench: Bench, tmp_path: Path) -> None:
    one = bench.add(Part(tmp_path / "a"))
    shutil.rmtree(one.folder)
    two = bench.add(Part(tmp_path / "a"))
    bench.run(SWEEP + 0.01)
    one.write()
    bench.watcher.round()
    assert one.looks >= 2
    bench.watcher.remove(one)
    bench.run(0.1)
    before = two.looks
    two.write()
    bench.watcher.round()
    assert two.looks == before + 1


def test_what_nobody_wants_any_more_is_let_go_with_the_next_sweep(bench: Bench, tmp_path: Path) -> None:
    part, other = bench.add(Part(tmp_path / "a")), bench.add(Part(tmp_path / "b"))
    part.wanted = False
    bench.run(SWEEP + 0.1)
    part.write()
    bench.run(SWEEP + 0.1)
    assert part.looks == 0
    assert other.looks >= 1


def test_the_thread_and_its_descriptors_are_there_only_while_something_is_watched(tmp_path: Path) -> None:
    watcher = FolderWatcher()
    for name in ("a", "b"):
        part = Part(tmp_path / name)
        watcher.add(part)
        thread = watcher._thread
        assert thread is not None
        watcher.remove(part)
        thread.join(60)
        assert not thread.is_alive()
        assert (watcher._thread, watcher._events, watcher._wake) == (None, None, -1)
