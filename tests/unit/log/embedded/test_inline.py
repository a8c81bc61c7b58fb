"""Appends in the caller's thread: they are appends like others, or nothing at all."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.core.errors import BadInput, DiskFull, Fenced, OutcomeUnknown, UnknownTopic
from headwater.core.files import Files
from headwater.core.metrics import Metrics
from headwater.log.embedded.check import check
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Bounds, Record, TopicSettings
from headwater.testing.clock import ManualClock
from headwater.testing.faults import FailingFiles

SOME = 60  # appends after which a disk is known to be quick


class Disk(Files):
    """A disk whose syncs take the time that it is told, by the clock of the log."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock, self.seconds = clock, 0.0

    def datasync(self, fd: int) -> None:
        super().datasync(fd)
        self.clock.advance(self.seconds)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(wakes=False)


@pytest.fixture
def disk(clock: ManualClock) -> Disk:
    return Disk(clock)


@pytest.fixture
def log(tmp_path: Path, clock: ManualClock, disk: Disk) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path, clock=clock, files=disk) as log:
        log.create_topic("t")
        warm(log)
        yield log


def warm(log: EmbeddedLog) -> None:
    for _ in range(SOME):
        log.append("t", 0, one("before"))


def one(text: str = "x") -> list[Record]:
    return [Record(b"k", text.encode())]


def values(log: EmbeddedLog) -> list[bytes | None]:
    return [record.value for record in log.read("t", 0, SOME)]


def test_it_is_an_append_as_others(log: EmbeddedLog, tmp_path: Path) -> None:
    assert log.append_inline("t", 0, one("a")) == range(SOME, SOME + 1)
    assert log.append("t", 0, one("b")) == range(SOME + 1, SOME + 2)
    assert log.append_inline("t", 0, [*one("c"), *one("d")]) == range(SOME + 2, SOME + 4)
    with EmbeddedLog(tmp_path, read_only=True) as other:
        assert values(other) == [b"a", b"b", b"c", b"d"]
    assert not check(log.reader("t", 0)).damage


def test_a_slow_sync_sends_appends_to_threads_until_enough_quick_ones_followed(log: EmbeddedLog, disk: Disk) -> None:
    assert log.append_inline("t", 0, one()) is not None
    disk.seconds = 0.01
    assert log.append_inline("t", 0, one()) is not None  # nobody knew
    disk.seconds = 0.0
    assert log.append_inline("t", 0, one()) is None
    warm(log)
    assert log.append_inline("t", 0, one()) is None
    warm(log)
    assert log.append_inline("t", 0, one()) is not None


def test_a_new_partition_is_not_taken_to_be_quick(tmp_path: Path, clock: ManualClock) -> None:
    with EmbeddedLog(tmp_path / "new", clock=clock) as log:
        log.create_topic("t")
        assert log.append_inline("t", 0, one()) is None  # not open
        log.append("t", 0, one())
        assert log.append_inline("t", 0, one()) is None
        assert log.bounds("t", 0) == Bounds(0, 1)


def test_it_does_not_wait_for_another_process(log: EmbeddedLog, tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as other, other.partition("t", 0).exclusive:
        assert log.append_inline("t", 0, one()) is None
    assert log.append_inline("t", 0, one("after")) is not None
    assert values(log) == [b"after"]


def test_it_does_not_wait_for_another_thread(log: EmbeddedLog) -> None:
    took, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with log.partition("t", 0).exclusive:
            took.set()
            leave.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    took.wait(60)
    try:
        assert log.append_inline("t", 0, one()) is None
    finally:
        leave.set()
        thread.join()
    assert log.append_inline("t", 0, one()) is not None


def test_whatever_takes_longer_is_left_to_a_thread(log: EmbeddedLog, clock: ManualClock, tmp_path: Path) -> None:
    clock.advance(2)  # the manifest is due
    assert log.append_inline("t", 0, one()) is None
    log.append("t", 0, one())
    assert log.append_inline("t", 0, one()) is not None
    assert log.append_inline("t", 0, [Record(b"k", bytes(1 << 20))]) is None  # more zeros have to be written ahead
    with EmbeddedLog(tmp_path, clock=clock) as other:
        other.claim("t", 0)
    end = log.bounds("t", 0).end
    assert log.append_inline("t", 0, one()) is None
    with pytest.raises(Fenced):
        log.append("t", 0, one())
    assert log.bounds("t", 0).end == end


def test_a_full_segment_is_left_to_a_thread(tmp_path: Path, clock: ManualClock) -> None:
    with EmbeddedLog(tmp_path / "small", clock=clock) as log:
        log.create_topic("t", settings=TopicSettings(segment=SOME * 60))
        warm(log)
        taken = [log.append_inline("t", 0, one()) for _ in range(20)]
        assert taken[-1] is None
        assert log.append("t", 0, one()).start == SOME + sum(offsets is not None for offsets in taken)


def test_a_period_is_no_reason_to_wait_until_it_is_over(tmp_path: Path, clock: ManualClock) -> None:
    with EmbeddedLog(tmp_path / "timed", clock=clock) as log:
        log.create_topic("t", settings=TopicSettings(period="day"))
        warm(log)
        assert log.append_inline("t", 0, one()) == range(SOME, SOME + 1)
        clock.advance(86_400)
        assert log.append_inline("t", 0, one()) is None
        log.append("t", 0, one())  # rolls
        assert len(list((tmp_path / "timed" / "log" / "t" / "0").glob("*.log"))) == 2
        assert log.append_inline("t", 0, one()) == range(SOME + 2, SOME + 3)


def test_a_deleted_topic_is_not_appended_to(log: EmbeddedLog, tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as other:
        other.delete_topic("t")
    assert log.append_inline("t", 0, one()) is None
    with pytest.raises(UnknownTopic):
        log.append("t", 0, one())


def test_a_topic_of_a_part_is_left_to_the_checks_of_append(tmp_path: Path, clock: ManualClock) -> None:
    with EmbeddedLog(tmp_path / "owned", clock=clock) as log:
        log.create_topic("t", part="journal")
        for _ in range(SOME):
            log.append("t", 0, one(), part="journal")
        assert log.append_inline("t", 0, one()) is None


def test_records_that_do_not_fit_are_refused_as_by_append(log: EmbeddedLog) -> None:
    for unfit in ([], [Record("text", b"")]):  # type: ignore[arg-type]
        with pytest.raises(BadInput) as inline:
            log.append_inline("t", 0, unfit)
        with pytest.raises(BadInput) as plain:
            log.append("t", 0, unfit)
        assert str(inline.value) == str(plain.value)
    assert log.append_inline("t", 0, one()) is not None


@pytest.mark.parametrize(
    ("number", "only", "expected"),
    [(errno.ENOSPC, {"pwritev"}, DiskFull), (errno.EIO, {"datasync"}, OutcomeUnknown)],
)
def test_a_failing_disk_is_told_and_repaired_as_by_append(
    number: int, only: set[str], expected: type[Exception], tmp_path: Path, clock: ManualClock
) -> None:
    """Each write and each sync of one append in its turn: the batch, its row of the sidecar, the sync."""
    for fail_at in (1, 2):
        files = FailingFiles(number=number, only=only)
        data = tmp_path / f"{number}-{fail_at}"
        with EmbeddedLog(data, clock=clock, files=files) as log:
            log.create_topic("t")
            warm(log)
            files.calls, files.fail_at = 0, fail_at
            acknowledged = []
            for text in ("a", "b"):
                try:
                    if log.append_inline("t", 0, one(text)) is not None:
                        acknowledged.append(text.encode())
                except expected:
                    files.fail_at = 0
            assert files.failed
            log.append("t", 0, one("last"))
            assert values(log) == [*acknowledged, b"last"]
            assert log.append_inline("t", 0, one("inline again")) is not None or expected is OutcomeUnknown
            assert not check(log.reader("t", 0)).damage
        with EmbeddedLog(data, read_only=True) as again:
            assert values(again)[: len(acknowledged) + 1] == [*acknowledged, b"last"]


def test_an_interrupted_append_leaves_nothing_locked(log: EmbeddedLog, disk: Disk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(fd: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(disk, "datasync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            log.append_inline("t", 0, one("perhaps"))
    with EmbeddedLog(tmp_path) as other:
        other.append("t", 0, one("theirs"))
    log.append("t", 0, one("ours"))
    assert values(log)[-2:] == [b"theirs", b"ours"]


def test_watchers_and_metrics_notice_it(tmp_path: Path, clock: ManualClock) -> None:
    metrics, arrived = Metrics(), threading.Event()
    with EmbeddedLog(tmp_path / "seen", clock=clock, metrics=metrics.log) as log:
        log.create_topic("t")
        warm(log)
        with log.watch("t", 0, arrived.set) as watching:
            arrived.clear()
            assert log.append_inline("t", 0, one()) is not None
            assert arrived.wait(60)
            assert watching.end() == SOME + 1
        samples = {sample.name: sample.value for family in metrics.log.families() for sample in family.samples}
        assert samples["headwater_log_appended_records_total"] == SOME + 1
        assert samples["headwater_log_append_seconds_count"] == samples["headwater_log_fsync_seconds_count"] == SOME + 1
        assert samples["headwater_log_end_offset"] == SOME + 1
