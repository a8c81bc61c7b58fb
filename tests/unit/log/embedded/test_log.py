"""The embedded engine's own ways: files, rolls, claims, forks, sidecars, formats. What both engines share is in the contract suite."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from headwater.core.errors import AlreadyExists, BadInput, Conflict, Fenced, NewerFormat, OutcomeUnknown, ReadOnly, WrongEngine
from headwater.core.period import Calendar
from headwater.log.embedded.check import check, stats
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.repair import repair
from headwater.log.record import Record, TopicSettings
from headwater.testing.clock import ManualClock
from headwater.testing.faults import crash

BOOT = b"b" * 16


def record(text: str, key: str = "k") -> Record:
    return Record(key.encode(), text.encode())


def open_at(path: Path, **kwargs: object) -> EmbeddedLog:
    return EmbeddedLog(path, clock=ManualClock(), boot=BOOT, **kwargs)  # type: ignore[arg-type]


@pytest.fixture
def log(tmp_path: Path) -> EmbeddedLog:
    return open_at(tmp_path)


def folder(log: EmbeddedLog) -> Path:
    return log.data / "log" / "t" / "0"


def segments(log: EmbeddedLog) -> list[str]:
    return sorted(path.name for path in folder(log).glob("*.log"))


def values(log: EmbeddedLog, start: int = 0) -> list[bytes | None]:
    return [one.value for one in log.read("t", 0, start, limit=100_000)]


def test_opening_and_reading_create_nothing(tmp_path: Path) -> None:
    log = open_at(tmp_path / "nowhere")
    assert log.topics() == []
    log.close()
    assert not (tmp_path / "nowhere").exists()


def test_a_segment_is_closed_before_the_append_that_finds_it_full(log: EmbeddedLog) -> None:
    log.create_topic("t", settings=TopicSettings(segment=106))  # two batches of 53 bytes
    for _ in range(5):
        log.append("t", 0, [Record(b"key", b"value")])
    assert segments(log) == [f"{base:020d}.log" for base in (0, 2, 4)]
    assert (folder(log) / f"{0:020d}.log").stat().st_size == 106


def test_a_segment_is_closed_at_its_period(tmp_path: Path) -> None:
    clock = ManualClock(start=3600 * 1000)
    log = EmbeddedLog(tmp_path, clock=clock, boot=BOOT)
    log.create_topic("t", settings=TopicSettings(period=3_600_000))
    log.append("t", 0, [record("a")])
    clock.advance(3599)
    log.append("t", 0, [record("b")])
    assert len(segments(log)) == 1
    clock.advance(1)
    log.append("t", 0, [record("c")])
    clock.advance(7200)  # an empty hour makes no segment
    log.append("t", 0, [record("d")])
    assert [one.removesuffix(".log").lstrip("0") for one in segments(log)] == ["", "2", "3"]
    assert values(log) == [b"a", b"b", b"c", b"d"]


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("period", "moments", "bases"),
    [
        ("hour", ["2026-11-17T16:00", "2026-11-17T16:59:59.999", "2026-11-17T17:00"], [0, 2]),
        ("day", ["2028-02-28T23:00", "2028-02-29T01:00", "2028-02-29T23:59", "2028-03-01"], [0, 1, 3]),
        ("month", ["2026-01-31T23:59:59.999", "2026-02-01", "2026-02-28T23:59:59.999", "2026-03-01"], [0, 1, 3]),
        ("month", ["2026-03-01", "2026-02-27", "2026-03-31", "2026-04-01"], [0, 3]),  # the clock is set back, and forward again
        ("month", ["2026-03-31", "2026-06-01", "2026-04-02", "2026-06-30", "2026-07-01"], [0, 1, 4]),  # set forward, and back
    ],
)
def test_a_segment_is_closed_at_the_end_of_its_hour_day_or_month(
    tmp_path: Path, period: Calendar, moments: list[str], bases: list[int]
) -> None:
    clock = ManualClock(start=ms(moments[0]) / 1000)
    log = EmbeddedLog(tmp_path, clock=clock, boot=BOOT)
    log.create_topic("t", settings=TopicSettings(period=period))
    for moment in moments:
        clock.advance((ms(moment) - clock.now_ms()) / 1000)
        log.append("t", 0, [record(moment)])
    assert segments(log) == [f"{base:020d}.log" for base in bases]
    assert values(log) == [moment.encode() for moment in moments]


def test_the_compaction_of_the_well_known_example(log: EmbeddedLog) -> None:
    log.create_topic("t", settings=TopicSettings(segment=500))
    log.append("t", 0, [record(str(i), key) for i, key in enumerate("AABBAABBCACBAACBA")])
    log.append("t", 0, [record(str(17 + i), key) for i, key in enumerate("AABBAABBCAC")])
    done = log.compact("t", 0, 23)
    assert (done.records_before, done.records_after) == (17, 3)
    assert [(one.offset, one.key) for one in log.read("t", 0, 0)][:3] == [(14, b"C"), (15, b"B"), (16, b"A")]
    assert values(log, 17) == [str(i).encode() for i in range(17, 28)]
    assert log.compact("t", 0).records_after == 3
    assert log.bounds("t", 0).start == 0
    assert log.append("t", 0, [record("more")])[0] == 28


def test_compaction_merges_small_results_and_leaves_large_ones_alone(log: EmbeddedLog) -> None:
    log.create_topic("t", settings=TopicSettings(segment=1000))
    for i in range(200):
        log.append("t", 0, [record("x" * 20, f"key-{i % 3}")])
    before = len(segments(log))
    assert before > 10
    log.compact("t", 0)
    assert len(segments(log)) == 2
    large = segments(log)[0]
    log.compact("t", 0)
    assert segments(log)[0] == large


def test_records_without_key_and_above_the_bound_survive_compaction(log: EmbeddedLog) -> None:
    log.create_topic("t", settings=TopicSettings(segment=1))
    for one in (Record(None, b"a"), record("b"), Record(None, b"c"), record("d"), record("e"), record("f")):
        log.append("t", 0, [one])
    log.compact("t", 0, 4)
    assert values(log) == [b"a", b"c", b"d", b"e", b"f"]


def test_only_one_compaction_at_a_time(log: EmbeddedLog, tmp_path: Path) -> None:
    import fcntl

    log.create_topic("t")
    log.append("t", 0, [record("a")])
    with (folder(log) / "compacting").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(Conflict, match="compacted already"):
            log.compact("t", 0)


def test_deleting_unlinks_whole_segments_and_moves_the_start(log: EmbeddedLog) -> None:
    log.create_topic("t", settings=TopicSettings(segment=106))
    for _ in range(5):
        log.append("t", 0, [Record(b"key", b"value")])
    assert log.delete_before("t", 0, 3) == 3
    assert segments(log) == [f"{base:020d}.log" for base in (2, 4)]
    assert [one.offset for one in log.read("t", 0, 3)] == [3, 4]


def test_a_reader_keeps_what_it_has_while_segments_go(log: EmbeddedLog) -> None:
    log.create_topic("t", settings=TopicSettings(segment=1))
    for i in range(6):
        log.append("t", 0, [record(f"a value that does not fit into the view itself {i}")])
    scan = log.scan("t", 0, 0)
    first = next(scan)
    log.delete_before("t", 0, 5)
    assert first.column("value").to_pylist()[0].endswith(b"itself 0")


def test_a_claimed_partition_takes_only_its_owners_records(log: EmbeddedLog) -> None:
    log.create_topic("t")
    log.append("t", 0, [record("free")])
    writer = log.claim("t", 0)
    with pytest.raises(Fenced):
        log.append("t", 0, [record("not the owner")])
    writer.append([record("owner")])
    other = open_at(log.data)
    newer = other.claim("t", 0)
    assert newer.epoch == writer.epoch + 1
    with pytest.raises(Fenced):
        writer.append([record("late")])
    newer.append([record("new owner")])
    assert values(log) == [b"free", b"owner", b"new owner"]


def test_a_claim_outlives_every_process(log: EmbeddedLog) -> None:
    log.create_topic("t")
    assert log.claim("t", 0).epoch == 1
    log.close()
    again = EmbeddedLog(log.data, clock=ManualClock(), boot=b"o" * 16)
    with pytest.raises(Fenced):
        again.append("t", 0, [record("x")])
    assert again.claim("t", 0).epoch == 2


def test_a_write_that_was_under_way_during_a_claim_is_not_acknowledged(log: EmbeddedLog) -> None:
    from headwater.log.encoding import encode

    log.create_topic("t")
    writer = log.claim("t", 0)
    partition = log.partition("t", 0)
    ticket = partition.write(encode([record("under way")], now=1), writer.epoch)
    newer = log.claim("t", 0)
    assert values(log) == [b"under way"]  # the new owner sees everything that was written before its claim
    partition.sync(ticket)
    with pytest.raises(OutcomeUnknown, match="claimed by another writer"):
        partition.publish(ticket)
    newer.append([record("new")])
    assert values(log) == [b"under way", b"new"]


@pytest.mark.parametrize("harm", ["missing", "zeros", "short", "shifted"])
def test_the_sidecar_can_be_lost(log: EmbeddedLog, harm: str) -> None:
    log.create_topic("t", settings=TopicSettings(segment=2000))
    for i in range(40):
        log.append("t", 0, [record(f"{i}-{j}") for j in range(3)])
    expected = values(log)
    log.close()
    for path in folder(log).glob("*.pos"):
        raw = path.read_bytes()
        path.write_bytes({"missing": b"", "zeros": bytes(len(raw)), "short": raw[: len(raw) // 2], "shifted": raw[4:] + raw[:4]}[harm])
        if harm == "missing":
            path.unlink()
    again = open_at(log.data)
    assert values(again) == expected
    assert sum(batch.num_rows for batch in again.scan("t", 0, 50)) == 70
    assert not check(again.reader("t", 0)).damage
    again.append("t", 0, [record("more")])
    assert values(again)[-1] == b"more"


def test_repair_cuts_out_what_is_damaged_and_keeps_it(log: EmbeddedLog) -> None:
    log.create_topic("t", settings=TopicSettings(segment=300))
    for i in range(30):
        log.append("t", 0, [record(str(i))])
    log.close()
    closed, active = folder(log) / segments(log)[1], folder(log) / segments(log)[-1]
    for path in (closed, active):
        rotten = bytearray(path.read_bytes())
        rotten[60] ^= 1
        path.write_bytes(rotten)
    kept = closed.read_bytes()

    from headwater.core.files import Files

    def mend(dry_run: bool) -> list[tuple[int, int]]:
        done = repair(folder(log), name="t 0", files=Files(), clock=ManualClock(), boot=BOOT, dry_run=dry_run)
        return done.lost

    before = {path.name: path.read_bytes() for path in folder(log).iterdir() if path.name != "commit"}
    lost = mend(dry_run=True)
    assert {path.name: path.read_bytes() for path in folder(log).iterdir() if path.name != "commit"} == before
    assert mend(dry_run=False) == lost
    again = open_at(log.data)
    gone = {offset for first, end in lost for offset in range(first, end)}
    assert len(gone) == 2
    assert values(again) == [str(i).encode() for i in range(30) if i not in gone]
    assert not check(again.reader("t", 0)).damage
    assert again.append("t", 0, [record("more")])[0] == 30
    assert (folder(log) / f"{closed.stem}.damaged.cut").read_bytes() == kept
    assert stats(again.reader("t", 0)).cuts == 2
    with pytest.raises(Conflict, match="in use"):
        mend(dry_run=False)


def test_a_torn_tail_is_kept_aside_and_counted(log: EmbeddedLog) -> None:
    log.create_topic("t")
    log.append("t", 0, [record("whole")])
    log.close()
    path = folder(log) / segments(log)[0]
    with path.open("ab") as file:
        file.write(b"half a batch")
    again = open_at(log.data)
    assert again.append("t", 0, [record("next")])[0] == 1
    assert values(again) == [b"whole", b"next"]
    assert stats(again.reader("t", 0)).cuts == 1
    assert next(folder(log).glob("*.cut")).read_bytes() == b"half a batch"


def test_a_child_made_by_fork_opens_its_own_files(log: EmbeddedLog) -> None:
    log.create_topic("t")
    log.append("t", 0, [record("parent")])
    child = os.fork()
    if child == 0:
        try:
            log.append("t", 0, [record("child")])
            log.close()
        finally:
            os._exit(0 if len(log._partitions) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    log.append("t", 0, [record("parent again")])
    assert values(log) == [b"parent", b"child", b"parent again"]


def test_a_deleted_topic_is_gone_for_everybody(log: EmbeddedLog) -> None:
    from headwater.core.errors import UnknownTopic

    topic = log.create_topic("t")
    other = open_at(log.data)
    other.append("t", 0, [record("a")])
    log.delete_topic("t")
    for call in (lambda: other.append("t", 0, [record("b")]), lambda: other.read("t", 0, 0), lambda: other.bounds("t", 0)):
        with pytest.raises(UnknownTopic):
            call()
    assert log.create_topic("t").generation != topic.generation
    assert other.append("t", 0, [record("new")])[0] == 0
    assert values(log) == values(other) == [b"new"]


def test_read_only_changes_nothing(log: EmbeddedLog) -> None:
    log.create_topic("t")
    log.append("t", 0, [record("a")])
    log.close()
    before = {path: path.stat().st_mtime_ns for path in log.data.rglob("*")}
    reader = open_at(log.data, read_only=True)
    assert values(reader) == [b"a"]
    for call in (
        lambda: reader.append("t", 0, [record("b")]),
        lambda: reader.create_topic("u"),
        lambda: reader.delete_topic("t"),
        lambda: reader.compact("t", 0),
        lambda: reader.claim("t", 0),
    ):
        with pytest.raises(ReadOnly):
            call()
    assert {path: path.stat().st_mtime_ns for path in log.data.rglob("*")} == before


def test_formats_and_engines_that_are_not_ours(log: EmbeddedLog, tmp_path: Path) -> None:
    log.create_topic("t")
    log.append("t", 0, [record("a")])
    log.close()
    marker = log.data / "log" / "engine.json"
    marker.write_bytes(msgspec.json.encode({"engine": "kafka", "format": 1}))
    with pytest.raises(WrongEngine, match="kafka engine"):
        open_at(log.data)
    marker.write_bytes(msgspec.json.encode({"engine": "embedded", "format": 99}))
    with pytest.raises(NewerFormat, match="format 99"):
        open_at(log.data)
    (tmp_path / "transporter").mkdir()
    (tmp_path / "transporter" / f"{0:020d}.log").write_bytes(b"")
    with pytest.raises(WrongEngine, match="another program's log"):
        open_at(tmp_path / "transporter")
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="not a directory"):
        open_at(tmp_path / "file")


def test_topics_keep_their_partition_count_and_settings(log: EmbeddedLog) -> None:
    log.create_topic("t", partitions=2, settings=TopicSettings(segment=1 << 20))
    with pytest.raises(AlreadyExists, match="2 partitions, not 3"):
        log.create_topic("t", partitions=3)
    with pytest.raises(AlreadyExists, match="other settings"):
        log.create_topic("t", partitions=2, settings=TopicSettings(segment=1 << 21))


def test_the_end_is_found_without_the_page(log: EmbeddedLog) -> None:
    """A reader of another boot surveys the bytes itself, before anybody has opened the partition for writing."""
    log.create_topic("t")
    log.append("t", 0, [record("a")])
    crash(log)
    reader = EmbeddedLog(log.data, boot=b"o" * 16, read_only=True)
    assert values(reader) == [b"a"]


def test_offset_at_is_exact_even_where_timestamps_fall(log: EmbeddedLog) -> None:
    log.create_topic("t", settings=TopicSettings(segment=1))
    for time in (10, 30, 20, 40):
        log.append("t", 0, [Record(b"k", b"v", timestamp=time)])
    assert [log.offset_at("t", 0, time) for time in (0, 10, 11, 25, 31, 41)] == [0, 0, 1, 1, 3, 4]


def test_the_end_is_known_while_a_reader_is_open_and_its_topic_is_there(log: EmbeddedLog) -> None:
    log.create_topic("orders")
    assert log.known_end("orders", 0) is None
    log.append("orders", 0, [Record(b"k", b"v")])
    assert log.bounds("orders", 0).end == log.known_end("orders", 0) == 1
    with EmbeddedLog(log.data) as other:
        other.append("orders", 0, [Record(b"k", b"v")])
        assert log.known_end("orders", 0) == 2
        other.delete_topic("orders")
    assert log.known_end("orders", 0) is None
