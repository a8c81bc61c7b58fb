"""The power goes at some moment: unsynced pages and names are kept or lost at random, the commit page is lost, the boot is another."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from headwater.core.disposal import DISPOSALS, overwrites
from headwater.core.errors import Damaged
from headwater.log.embedded.check import check
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.encoding import encode
from headwater.log.record import Record, TopicSettings
from headwater.testing.clock import ManualClock
from headwater.testing.faults import UnpoweredFiles, crash

ROUNDS = int(os.environ.get("SOAK_POWER_ROUNDS", "60"))


def live(log: EmbeddedLog, clock: ManualClock, random: Random, acknowledged: dict[int, bytes]) -> tuple[int, int]:
    """Append, roll, delete, compact and claim at random; return the start and the offset below which compaction may have removed."""
    start = compacted = 0
    writer = None
    for step in range(random.randint(1, 25)):
        kind = random.random()
        if kind < 0.75 or not acknowledged:
            values = [b"<%d-%d>" % (step, i) + b"x" * random.randint(0, 3000) for i in range(random.randint(1, 4))]
            records = [Record(b"key-%d" % random.randint(0, 3), value) for value in values]
            offsets = log.append("t", 0, records) if writer is None else writer.append(records)
            acknowledged.update(zip(offsets, values, strict=True))
            clock.advance(random.choice([0, 0.2, 1.5]))
        elif kind < 0.83:
            offset = random.randint(start, max(acknowledged))
            start = log.delete_before("t", 0, offset) if writer is None else writer.delete_before(offset)
        elif kind < 0.93:
            compacted = max(compacted, max(acknowledged) + 1)
            (writer or log.writer("t", 0, 0)).compact()
            if random.random() < 0.5:
                (writer or log.writer("t", 0, 0)).roll()
        else:
            writer = log.claim("t", 0)
    return start, compacted


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_nothing_acknowledged_is_lost_with_the_power(memory_path: Path, seed: int) -> None:
    random, clock, files = Random(seed), ManualClock(wakes=False), UnpoweredFiles()
    acknowledged: dict[int, bytes] = {}
    log = EmbeddedLog(memory_path / "before", files=files, clock=clock, boot=b"b" * 16)
    disposal = DISPOSALS[seed % len(DISPOSALS)]
    log.create_topic("t", settings=TopicSettings(segment=random.choice([300, 5000, 1 << 20]), disposal=disposal))
    start, compacted = live(log, clock, random, acknowledged)
    # A last batch that was written and not synced: it may be there or not, whole or torn.
    unsynced = [Record(b"key", b"unsynced" * random.randint(1, 2000))]
    partition = log.partition("t", 0)
    partition.write(encode(unsynced, now=1), partition.page.epoch or None)
    files.cut(memory_path / "before" / "log" / "t" / "0", into=memory_path / "after" / "log" / "t" / "0", random=random)
    for name in ("log/engine.json", "log/t/topic.json"):
        (memory_path / "after" / name).write_bytes((memory_path / "before" / name).read_bytes())
    crash(log)

    with EmbeddedLog(memory_path / "after", clock=clock, boot=b"o" * 16) as found:
        before_writing = {record.offset: record.value for record in found.read("t", 0, found.bounds("t", 0).start, limit=10_000)}
        (last,) = found.claim("t", 0).append([Record(b"after", b"after")])
        records = {record.offset: record.value for record in found.read("t", 0, found.bounds("t", 0).start, limit=10_000)}
        assert records.pop(last) == b"after"
        assert records == before_writing  # a reader that comes before the first writer sees the same
        assert found.bounds("t", 0).start <= start or start == 0
        for offset, value in acknowledged.items():
            if offset >= max(start, compacted):
                assert records[offset] == value
            else:
                assert records.get(offset, value) == value
        assert set(records.values()) <= {*acknowledged.values(), unsynced[0].value}
        assert not check(found.reader("t", 0)).damage
        manifest = found.reader("t", 0).manifest()
        assert manifest is not None
        assert not manifest.drained
        folder = memory_path / "after" / "log" / "t" / "0"
        for path in folder.glob("*.spare"):
            assert path.stem in manifest.spares
            assert not path.read_bytes().strip(b"\0")
        if overwrites(disposal):
            first = manifest.segments[0].base
            gone = {value.partition(b">")[0] + b">" for offset, value in acknowledged.items() if offset < min(first, start)}
            assert not [(value, path.name) for value in gone for path in folder.iterdir() if value in path.read_bytes()]


def test_rot_before_the_durable_end_is_reported_after_a_power_cut_and_never_cut_off(memory_path: Path) -> None:
    log = EmbeddedLog(memory_path, clock=ManualClock(), boot=b"b" * 16)
    log.create_topic("t")
    for i in range(10):
        log.append("t", 0, [Record(b"k", b"%d" % i)])
    crash(log)  # nobody settles: the manifest still says 0, and only the batches themselves know of the durable end
    path = memory_path / "log" / "t" / "0" / f"{0:020d}.log"
    rotten = bytearray(path.read_bytes().rstrip(b"\0"))  # without what was written ahead
    rotten[3 * (len(rotten) // 10) + 30] ^= 1
    path.write_bytes(rotten)

    log = EmbeddedLog(memory_path, clock=ManualClock(), boot=b"o" * 16)
    with pytest.raises(Damaged, match="offset 3"):
        log.append("t", 0, [Record(b"k", b"more")])
    assert [record.value for record in log.read("t", 0, 0)] == [b"0", b"1", b"2"]
    with pytest.raises(Damaged):
        log.read("t", 0, 3)
    assert path.read_bytes() == rotten
    assert [damage.offset for damage in check(log.reader("t", 0)).damage] == [3]
