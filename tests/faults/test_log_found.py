"""What the loops of kills, cuts and rot have found, one by one."""

from __future__ import annotations

import contextlib
import shutil
import traceback
from pathlib import Path

import pytest

from headwater.core.errors import Conflict, Damaged, HeadwaterError
from headwater.core.files import Files
from headwater.log.embedded import compaction
from headwater.log.embedded.check import check
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.manifest import Manifest
from headwater.log.embedded.repair import repair
from headwater.log.embedded.state import PartitionState
from headwater.log.record import Record, TopicSettings
from headwater.testing.clock import ManualClock
from headwater.testing.faults import FailingFiles

BOOT, OTHER = b"b" * 16, b"o" * 16


def opened(data: Path, boot: bytes = BOOT) -> EmbeddedLog:
    return EmbeddedLog(data, clock=ManualClock(wakes=False), boot=boot)


def fill(log: EmbeddedLog, first: int, end: int) -> None:
    log.create_topic("t", settings=TopicSettings(segment=300))
    for number in range(first, end):
        log.append("t", 0, [Record(b"key-%d" % number, b"value-%d" % number)])


@pytest.mark.parametrize("boot", [BOOT, OTHER], ids=["same-boot", "other-boot"])
def test_a_manifest_older_than_the_segments_never_lets_them_be_removed(tmp_path: Path, boot: bytes) -> None:
    """A manifest that was brought back from a copy does not name the newest segments: they hold what was acknowledged."""
    data = tmp_path / "data"
    folder = data / "log" / "t" / "0"
    with opened(data) as log:
        fill(log, 0, 20)
    shutil.copy(folder / "manifest", tmp_path / "older")
    with opened(data) as log:
        fill(log, 20, 60)
    shutil.copy(tmp_path / "older", folder / "manifest")
    before = {path.name: path.read_bytes() for path in folder.glob("*.log")}
    with opened(data, boot) as log:
        with pytest.raises(Damaged):
            log.append("t", 0, [Record(b"k", b"again")])
        with pytest.raises(Damaged):
            list(log.scan("t", 0, 0))
    with pytest.raises(Damaged, match="older than") as told:
        repair(folder, name="t 0", files=Files(), clock=ManualClock(), boot=boot)
    assert "--rebuild" in told.value.hint
    assert {path.name: path.read_bytes() for path in folder.glob("*.log")} == before


def test_after_a_repair_of_the_last_records_what_is_left_can_be_read(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with opened(data) as log:
        fill(log, 0, 20)
        active = log.reader("t", 0).extents()[-1][0].log(data / "log" / "t" / "0")
    raw = bytearray(active.read_bytes())
    raw[raw.rindex(b"value-19")] ^= 1
    active.write_bytes(raw)
    done = repair(data / "log" / "t" / "0", name="t 0", files=Files(), clock=ManualClock(), boot=BOOT)
    assert done.lost == [(19, 20)]
    with opened(data) as log:
        found = [record.offset for record in log.read("t", 0, 0)]
        assert found == list(range(19))
        assert sum(len(batch) for batch in log.scan("t", 0, 0)) == 19
        assert not check(log.reader("t", 0)).damage


@pytest.mark.parametrize("number", [0, -1], ids=["closed", "active"])
def test_a_repair_that_fails_at_any_call_can_be_done_again(memory_path: Path, number: int) -> None:
    for failing in range(1, 100):
        data = memory_path / str(failing)
        folder = data / "log" / "t" / "0"
        with opened(data) as log:
            fill(log, 0, 20)
            segment = log.reader("t", 0).extents()[number][0]
        path = segment.log(folder)
        raw = bytearray(path.read_bytes())
        raw[raw.index(b"value")] ^= 1
        path.write_bytes(raw)
        files = FailingFiles(failing, forever=True)
        with contextlib.suppress(HeadwaterError):
            repair(folder, name="t 0", files=files, clock=ManualClock(), boot=BOOT)
        with opened(data) as log:
            log.append("t", 0, [Record(b"k", b"between")])  # the damage lies before the manifest's durable end
        done = repair(folder, name="t 0", files=Files(), clock=ManualClock(), boot=BOOT)
        assert done.lost in ([], [(segment.base, segment.base + 1)])
        with opened(data) as log:
            log.append("t", 0, [Record(b"k", b"after")])
            found = [record.offset for start in (0, segment.base + 1) for record in log.read("t", 0, start)]
            assert set(range(22)) - set(found) == {segment.base}
            assert not check(log.reader("t", 0)).damage
        if not files.failed:
            return
    pytest.fail("it never came to its end")


def test_segments_deleted_under_a_compaction_are_a_conflict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deleted between the compaction's look at the manifest and its reading of the files: nothing is wrong with the disk."""
    with opened(tmp_path) as log:
        fill(log, 0, 60)
        plans = compaction._plans

        def deleted_first(*arguments: object) -> object:
            log.delete_before("t", 0, 50)
            return plans(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(compaction, "_plans", deleted_first)
        with pytest.raises(HeadwaterError) as raised:
            log.compact("t", 0)
        assert isinstance(raised.value, Conflict), repr(raised.value)
        monkeypatch.undo()
        log.compact("t", 0)
        assert log.read("t", 0, 50)[0].offset == 50


def test_the_page_is_corrected_by_the_manifest_under_the_lock_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the lock, a manifest that another process replaces meanwhile looks older than the page, which then tells of the older one:
    readers do not learn of a deletion, and a writer may go on in a file that a repair has put aside."""
    stored, without = PartitionState.stored, []

    def looked(partition: PartitionState) -> Manifest:
        if not partition.exclusive._held:
            without.append("".join(traceback.format_stack(limit=3)))
        return stored(partition)

    monkeypatch.setattr(PartitionState, "stored", looked)
    with opened(tmp_path) as log:
        fill(log, 0, 60)
        log.delete_before("t", 0, 5)
        log.compact("t", 0)
        log.claim("t", 0)
    assert not without, without[0]


def test_a_segment_with_holes_gives_out_no_record_beyond_its_end(tmp_path: Path) -> None:
    """Its file holds the bytes of a later one: whole batches with offsets that it may hold by its base, but not by its end."""
    with opened(tmp_path) as log:
        fill(log, 0, 10)
        fill(log, 0, 50)  # the keys of the first ten once more
        log.compact("t", 0, 24)
        folder, segments = tmp_path / "log" / "t" / "0", [segment for segment, _, _ in log.reader("t", 0).extents()]
    wrong = next(number for number, one in enumerate(segments) if not one.dense)
    assert segments[wrong + 2].closed
    segments[wrong].log(folder).write_bytes(segments[wrong + 2].log(folder).read_bytes().ljust(segments[wrong].length, b"\0"))
    segments[wrong].pos(folder).unlink()
    with opened(tmp_path) as log:
        with pytest.raises(Damaged):
            log.read("t", 0, segments[wrong].base)
        assert check(log.reader("t", 0)).damage[0].position == 0
