"""The supervisor with workers that do what a test tells them: started together, started again, ended together."""

from __future__ import annotations

import logging
import os
import select
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from headwater.core.errors import Damaged, Unavailable
from headwater.core.settings import ServerSettings, Settings
from headwater.server.supervisor import Supervisor
from headwater.server.team import FOLDER
from headwater.testing.clock import ManualClock
from headwater.wire.problems import problem_of

Life = Callable[[int, int], int]  # a worker's: its slot and the pipe to its parent; what it returns is its exit status


class Workers(Supervisor):
    """Forks as the real one does; a worker then lives the life of the test."""

    def __init__(self, data: Path, life: Life, *, started: Callable[[], None] = lambda: None, count: int = 2) -> None:
        self.clock, self._life, self.ends = ManualClock(wakes=False), life, 0
        settings = Settings(data=data, server=ServerSettings(workers=count))
        super().__init__(
            settings, clock=self.clock, ids=lambda: "id", tokens=None, certificate=None, sockets=[], started=started, ending=self._noted
        )

    def _noted(self) -> None:
        self.ends += 1

    def _be_worker(self, slot: int, says: int) -> None:
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD))
            code = self._life(slot, says)
        finally:
            os._exit(code)

    @property
    def pids(self) -> list[int]:
        return list(self._children)


def serve(slot: int, says: int) -> int:
    """Ready at once, until a signal."""
    os.write(says, b"ready")
    while True:
        signal.pause()


def stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def test_workers_start_together_and_a_signal_ends_all_of_them(tmp_path: Path) -> None:
    pids: list[int] = []

    def started() -> None:
        pids.extend(workers.pids)
        stop()

    before = signal.getsignal(signal.SIGTERM)
    workers = Workers(tmp_path, serve, started=started, count=3)
    assert workers.run() is True
    assert len(pids) == 3, "called once, when all of them were ready"
    assert workers.ends == 1
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert not (tmp_path / FOLDER).exists()
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_dead_worker_is_started_again_in_its_slot(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lives = tmp_path / "lives"
    lives.mkdir()
    parent = os.getpid()

    def life(slot: int, says: int) -> int:
        second = (lives / str(slot)).exists()
        (lives / str(slot)).touch()
        os.write(says, b"ready")
        if slot == 1 and not second:
            signal.sigwait({signal.SIGUSR1})
            return 7
        if second:
            (lives / "again").write_text(str(slot))
            os.kill(parent, signal.SIGTERM)
        while True:
            signal.pause()

    def started() -> None:
        workers.clock.advance(20)  # it has lived long enough to be started again at once
        for pid in workers.pids:
            if workers._children[pid].slot == 1:
                os.kill(pid, signal.SIGUSR1)

    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})  # inherited: it comes when the worker waits for it
    try:
        workers = Workers(tmp_path / "data", life, started=started)
        (tmp_path / "data").mkdir()
        with caplog.at_level(logging.ERROR):
            assert workers.run() is True
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
    assert (lives / "again").read_text() == "1"
    assert "worker 1" in caplog.text
    assert "ended with 7; it is started again in 0 s" in caplog.text


class Hanging(Workers):
    """Two workers, of which worker 1 stands still once; worker 0 gives a sign of life when a test wants one."""

    def __init__(self, data: Path, passed: float) -> None:
        super().__init__(data, self._lived, started=self._pass)
        self._passed, self._parent, self._lives = passed, os.getpid(), data / "lives"
        self.first: list[int] = []

    def _lived(self, slot: int, says: int) -> int:
        os.write(says, b"ready")
        if slot == 1 and self._lives.exists():
            os.kill(self._parent, signal.SIGTERM)
        elif slot == 1:
            self._lives.touch()
            os.kill(os.getpid(), signal.SIGSTOP)
        while True:
            signal.sigwait({signal.SIGUSR1})
            os.write(says, b".")

    def _pass(self) -> None:
        self.first = self.pids
        beating, hanging = sorted(self._children, key=lambda pid: self._children[pid].slot)
        os.waitid(os.P_PID, hanging, os.WSTOPPED)
        os.kill(beating, signal.SIGUSR1)
        heard = select.poll()  # takes any descriptor: with many tests in a process they have high numbers
        heard.register(self._children[beating].said, select.POLLIN)
        assert heard.poll(60_000)
        self.clock.advance(self._passed)


@pytest.fixture
def usr1() -> Iterator[None]:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})  # inherited: it comes when a worker waits for it
    yield
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})


@pytest.mark.usefixtures("usr1")
def test_a_worker_that_hangs_is_killed_and_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    workers = Hanging(tmp_path, 31)
    with caplog.at_level(logging.ERROR):
        assert workers.run() is True
    killed, replaced = [record.getMessage() for record in caplog.records]
    assert killed == f"worker 1 (process {max(workers.first)}) has given no sign of life for 30 s; it is killed"
    assert replaced.startswith(f"worker 1 (process {max(workers.first)}) ended with -9; it is started again in 0 s")


def test_a_worker_that_hangs_before_it_is_ready_is_killed_and_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lives, parent, hung = tmp_path / "lives", os.getpid(), list[int]()

    class Starting(Workers):
        def _wait(self, signals: object) -> bytes:
            for pid, child in self._children.items():
                if first and child.slot == 1 and pid != first and not hung:
                    hung.append(pid)
                    os.waitid(os.P_PID, pid, os.WSTOPPED)
                    self.clock.advance(121)
            return super()._wait(signals)  # type: ignore[arg-type]

    def life(slot: int, says: int) -> int:
        if slot == 0:
            return serve(slot, says)
        with lives.open("ab") as noted:
            noted.write(b".")
        count = lives.stat().st_size
        if count == 1:
            os.write(says, b"..ready.")
            return 7
        if count == 2:
            os.kill(os.getpid(), signal.SIGSTOP)
        os.kill(parent, signal.SIGTERM)
        return serve(slot, says)

    def started() -> None:
        nonlocal first
        first = max(workers.pids)
        workers.clock.advance(20)  # it has lived long enough to be started again at once

    first = 0
    (tmp_path / "data").mkdir()
    workers = Starting(tmp_path / "data", life, started=started)
    with caplog.at_level(logging.ERROR):
        assert workers.run() is True
    told = [record.getMessage() for record in caplog.records]
    assert f"worker 1 (process {hung[0]}) has given no sign of life for 120 s; it is killed" in told
    assert lives.stat().st_size == 3


@pytest.mark.usefixtures("usr1")
@pytest.mark.parametrize("stood", [29.6, 30.0, 32.0, 34.0, 40.0, 1000.0])
def test_time_in_which_the_parent_itself_stood_still_is_not_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture, stood: float) -> None:
    """Such as where the whole group of processes was stopped, and goes on."""
    passes = [0.5, stood]  # the last one first; then the workers have not yet given a sign of life

    class Stood(Hanging):
        def _pass(self) -> None:
            super()._pass()
            self._pid = max(self.first)

        def _wait(self, signals: object) -> bytes:
            if not self.first or not passes:
                return super()._wait(signals)  # type: ignore[arg-type]
            poll, clock = select.poll, self.clock

            class Late:
                def register(self, *_: object) -> None:
                    """Nothing is heard meanwhile."""

                def poll(self, timeout: float) -> None:
                    clock.advance(passes.pop())

            try:
                select.poll = Late  # type: ignore[assignment,misc]
                return super()._wait(signals)  # type: ignore[arg-type]
            finally:
                select.poll = poll  # type: ignore[misc]
                if not passes:
                    os.kill(self._pid, signal.SIGCONT)
                    stop()

    with caplog.at_level(logging.ERROR):
        assert Stood(tmp_path, 0.0).run() is True
    assert not caplog.records


@pytest.mark.parametrize("beats", [b"", b"..."])
def test_the_problem_of_a_worker_that_was_ready_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture, beats: bytes) -> None:
    lives, parent = tmp_path / "lives", os.getpid()

    def life(slot: int, says: int) -> int:
        if lives.exists():
            os.kill(parent, signal.SIGTERM)
            return serve(slot, says)
        lives.touch()
        os.write(says, b"ready" + beats)
        os.write(says, beats + msgspec.json.encode(problem_of(Damaged("The log is damaged.", hint="h"), "")))
        return 7

    def started() -> None:
        workers.clock.advance(20)  # it has lived long enough to be started again at once

    workers = Workers(tmp_path / "data", life, started=started, count=1)
    (tmp_path / "data").mkdir()
    with caplog.at_level(logging.ERROR):
        assert workers.run() is True
    assert "ended with 7; it is started again in" in caplog.text
    assert '"The log is damaged."' in caplog.text


def test_a_worker_that_dies_young_waits_longer_each_time(tmp_path: Path) -> None:
    pauses: list[float] = []

    class Impatient(Workers):
        def _wait(self, signals: object) -> bytes:
            if self._due:
                pauses.append(round(min(self._due.values()) - self.clock.monotonic(), 3))
                self.clock.advance(pauses[-1])
            if len(pauses) == 7:
                stop()
            return super()._wait(signals)  # type: ignore[arg-type]

    def life(slot: int, says: int) -> int:
        os.write(says, b"ready")
        return 1 if os.getppid() == parent else 0

    parent = os.getpid()
    assert Impatient(tmp_path, life, count=1).run() is True
    assert pauses[:7] == [0.5, 1.0, 2.0, 5.0, 10.0, 10.0, 10.0]


def test_an_error_of_the_first_start_is_the_supervisors(tmp_path: Path) -> None:
    def life(slot: int, says: int) -> int:
        if slot == 1:
            os.write(says, msgspec.json.encode(problem_of(Damaged("The log is damaged.", hint="h"), "")))
            return 7
        return serve(slot, says)

    workers = Workers(tmp_path, life, started=stop)
    with pytest.raises(Damaged, match="The log is damaged"):
        workers.run()
    assert not workers.pids, "the others are ended, too"


def test_a_worker_that_ends_without_a_word_is_named_by_its_status(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="exit 3"):
        Workers(tmp_path, lambda slot, says: 3).run()


def test_a_second_signal_ends_everything_at_once(tmp_path: Path) -> None:
    def life(slot: int, says: int) -> int:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it would go on
        return serve(slot, says)

    pids: list[int] = []

    def started() -> None:
        pids.extend(workers.pids)
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)

    workers = Workers(tmp_path, life, started=started)
    assert workers.run() is False
    assert pids
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_worker_that_does_not_end_within_the_grace_is_killed(tmp_path: Path) -> None:
    def life(slot: int, says: int) -> int:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return serve(slot, says)

    class Hurried(Workers):
        def _noted(self) -> None:
            super()._noted()
            self.clock.advance(1000)

    workers = Hurried(tmp_path, life, started=stop)
    assert workers.run() is True
    assert workers.ends == 1
