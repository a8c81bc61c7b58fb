"""An exception comes between any two steps of a call, as Ctrl-C does: the thread holds nothing afterwards, and everybody goes on."""

from __future__ import annotations

import linecache
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import pytest
from slow_sync import SlowSync

from headwater.core.errors import Unavailable
from headwater.core.files import Files
from headwater.log.embedded import exclusive
from headwater.log.embedded.check import check
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record, TopicSettings

ENGINE = str(Path(exclusive.__file__).parent)
SOON = 20.0  # seconds; whoever takes longer hangs


class Interrupt:
    """Raises KeyboardInterrupt at the step of that number: each call, line and return of the engine is one."""

    def __init__(self, number: int) -> None:
        self._left, self.fired = number, False

    def trace(self, frame: FrameType, event: str, _: object) -> Callable[..., object] | None:
        if not frame.f_code.co_filename.startswith(ENGINE):
            return None
        if not self.fired and event != "exception" and not self._in_one_step(frame, event):
            self._left -= 1
            if self._left < 0:
                self.fired = True
                raise KeyboardInterrupt
        return self.trace

    @staticmethod
    def _in_one_step(frame: FrameType, event: str) -> bool:
        """A `with` takes a lock of threading, and lets go of it, with no step in between, and a `try` is none itself: the interpreter runs
        no signal handler there."""
        return event == "line" and linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith(("with ", "try:"))

    @contextmanager
    def coming(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self.trace)
        try:
            yield
        finally:
            sys.settrace(before)


def in_time(call: Callable[[], object]) -> None:
    """Call it in another thread: one that hangs is a failure."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SOON)
    assert not thread.is_alive(), "it hangs"
    if raised:
        raise raised[0]


CALLS: dict[str, Callable[[EmbeddedLog], object]] = {
    "append": lambda log: log.append("t", 0, [Record(None, b"interrupted")]),
    "roll": lambda log: log.append("t", 0, [Record(None, b"interrupted")]),
    "claim": lambda log: log.claim("t", 0),
    "delete": lambda log: log.delete_before("t", 0, 1),
}


@pytest.mark.parametrize("what", CALLS)
def test_whatever_step_is_interrupted_everybody_goes_on(memory_path: Path, what: str) -> None:
    for number in range(0, 2000, 1 if what == "append" else 2):
        data = memory_path / f"{what}{number}"
        interrupt = Interrupt(number)
        log, other = EmbeddedLog(data), EmbeddedLog(data)
        log.create_topic("t", settings=TopicSettings(segment=1 if what == "roll" else 1 << 20))
        log.append("t", 0, [Record(None, b"first")])
        other.append("t", 0, [Record(None, b"second")])
        with suppress(KeyboardInterrupt), interrupt.coming():
            CALLS[what](log)
        writers = [other, log]
        if what == "claim":
            writers = []
            in_time(lambda log=other: log.claim("t", 0).append([Record(None, b"after")]))  # type: ignore[misc]
        for writer in writers:
            in_time(lambda log=writer: log.append("t", 0, [Record(None, b"after")]))  # type: ignore[misc]
        in_time(log.close)
        in_time(other.close)
        with EmbeddedLog(data, read_only=True) as reader:
            bounds = reader.bounds("t", 0)
            records = reader.read("t", 0, bounds.start)
            assert [one.offset for one in records] == list(range(bounds.start, bounds.end))
            values = [one.value for one in records if one.value != b"interrupted"]
            assert [b"first", b"second"][bounds.start :] + [b"after"] * (len(writers) or 1) == values
            assert not check(reader.reader("t", 0)).damage
        if not interrupt.fired:
            return
    pytest.fail("it never came to its end")


OTHERS: dict[str, Callable[[EmbeddedLog], object]] = {
    "close": lambda log: log.close(),
    "create": lambda log: log.create_topic("new"),
    "delete": lambda log: log.delete_topic("old"),
    "open": lambda log: log.append("old", 0, [Record(None, b"interrupted")]),
    "compact": lambda log: log.compact("t", 0),
}


@pytest.mark.parametrize("what", OTHERS)
def test_whatever_step_of_another_call_is_interrupted_the_other_process_goes_on(memory_path: Path, what: str) -> None:
    for number in range(0, 2000, 2 if what in ("create", "delete") else 5):
        data = memory_path / f"{number}"
        interrupt = Interrupt(number)
        log, other = EmbeddedLog(data), EmbeddedLog(data)
        for topic in ("t", "old"):
            log.create_topic(topic, settings=TopicSettings(segment=1))
        for name in ("first", "second", "third"):
            log.append("t", 0, [Record(b"k", name.encode())])
        with suppress(KeyboardInterrupt), interrupt.coming():
            OTHERS[what](log)
        in_time(lambda log=other: log.append("t", 0, [Record(b"k", b"after")]))  # type: ignore[misc]
        in_time(lambda log=other: log.create_topic("another"))  # type: ignore[misc]
        in_time(lambda log=other: log.append("another", 0, [Record(b"k", b"after")]))  # type: ignore[misc]
        in_time(lambda log=other: log.compact("t", 0))  # type: ignore[misc]
        in_time(log.close)
        in_time(other.close)
        with EmbeddedLog(data) as log:  # alone, whatever was interrupted: the one before has let go
            log.append("t", 0, [Record(b"k", b"last")])
            assert [one.value for one in log.read("t", 0, 0)][-2:] == [b"after", b"last"]
            assert not check(log.reader("t", 0)).damage
        if not interrupt.fired:
            return
    pytest.fail("it never came to its end")


def test_a_close_that_is_interrupted_while_it_waits_can_be_done_again(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = SlowSync()
    log = EmbeddedLog(memory_path, files=files)
    log.create_topic("t")
    log.append("t", 0, [Record(None, b"first")])
    partition = log.partition("t", 0)
    files.armed = True
    appending = threading.Thread(target=lambda: log.append("t", 0, [Record(None, b"under way")]))
    appending.start()
    assert files.syncing.wait(SOON)

    def interrupted() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as context, pytest.raises(KeyboardInterrupt):
        context.setattr(partition._ended, "wait", interrupted)
        log.close()
    files.go_on.set()
    appending.join(SOON)
    in_time(log.close)
    assert not any(str(memory_path) in os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.exists())
    with EmbeddedLog(memory_path) as log:
        assert [one.value for one in log.read("t", 0, 0)] == [b"first", b"under way"]


class Signalled(Files):
    """In the middle of a write, a handler of a signal is run by the thread that writes."""

    handler: Callable[[], object] | None = None

    def pwritev(self, fd: int, parts: object, position: int) -> int:
        handler, self.handler = self.handler, None
        if handler is not None:
            handler()
        return super().pwritev(fd, parts, position)  # type: ignore[arg-type]


def test_a_signal_handler_that_uses_the_log_in_the_middle_of_an_append_is_refused(memory_path: Path) -> None:
    files = Signalled()
    with EmbeddedLog(memory_path, files=files) as log:
        log.create_topic("t")
        log.append("t", 0, [Record(None, b"first")])
        refused: list[Unavailable] = []

        def handler() -> None:
            with pytest.raises(Unavailable, match="this very thread") as caught:
                log.append("t", 0, [Record(None, b"from the handler")])
            refused.append(caught.value)

        files.handler = handler
        in_time(lambda: log.append("t", 0, [Record(None, b"second")]))
        assert refused
        assert [one.value for one in log.read("t", 0, 0)] == [b"first", b"second"]
