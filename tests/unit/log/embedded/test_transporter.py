"""Importing a transporter log directory."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from headwater.core.errors import AlreadyExists, BadInput, Damaged, OwnedTopic
from headwater.log.embedded.check import check
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.transporter import import_transporter
from headwater.log.record import Mode, Record


def entry(offset: int, key: bytes = b"db.things", value: bytes = b'{"a":1}', seconds: int = 1_491_252_302, attribute: int = 0) -> bytes:
    """A record as transporter writes it: seconds, and no trailer."""
    head = struct.pack(">QIQBI", offset, 8 + len(key) + len(value), seconds, attribute, len(key))
    return head + key + struct.pack(">I", len(value)) + value


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "transporter"
    path.mkdir()
    return path


@pytest.fixture
def log(tmp_path: Path) -> EmbeddedLog:
    return EmbeddedLog(tmp_path / "data")


def segment(source: Path, base: int, *entries: bytes, suffix: str = ".log") -> None:
    (source / f"{base:020d}{suffix}").write_bytes(b"".join(entries))


def test_offsets_modes_and_holes_are_kept_and_seconds_become_milliseconds(source: Path, log: EmbeddedLog) -> None:
    segment(source, 0, entry(0), entry(1, attribute=4), entry(5, attribute=9, key=b"db.other"))
    segment(source, 6, entry(6), entry(9, value=b"", seconds=0))
    done = import_transporter(log, source, "imported")
    assert (done.files, done.records, done.start, done.end, done.torn) == (2, 5, 0, 10, 0)
    found = log.read("imported", 0, 0)
    assert [one.offset for one in found] == [0, 1, 5, 6, 9]
    assert found[1] == Record(b"db.things", b'{"a":1}', timestamp=1_491_252_302_000, mode=Mode.COPY, op=1, offset=1)
    assert (found[2].key, found[2].mode, found[2].op) == (b"db.other", Mode.SYNC, 2)
    assert (found[4].value, found[4].timestamp) == (b"", 0)
    assert log.append("imported", 0, [Record(b"k", b"next")])[0] == 10
    assert [one.offset for one in log.read("imported", 0, 6)] == [6, 9, 10]
    assert [batch.column("offset").to_pylist() for batch in log.scan("imported", 0, 2)] == [[5], [6, 9], [10]]
    assert not check(log.reader("imported", 0)).damage


def test_an_unfinished_last_record_is_left_out_and_told(source: Path, log: EmbeddedLog) -> None:
    segment(source, 0, entry(0), entry(1)[:-3])
    done = import_transporter(log, source, "imported")
    assert (done.records, done.torn) == (1, len(entry(1)) - 3)


def test_compaction_stages_are_read_as_transporter_would_finish_them(source: Path, log: EmbeddedLog) -> None:
    segment(source, 0, entry(0), entry(1), entry(2))
    segment(source, 0, entry(2), suffix=".swap")
    segment(source, 3, entry(3), suffix=".cleaned")
    segment(source, 0, entry(0), suffix=".deleted")
    import_transporter(log, source, "imported")
    assert [one.offset for one in log.read("imported", 0, 0)] == [2]


def test_what_makes_no_sense_is_refused_and_nothing_is_left(source: Path, log: EmbeddedLog) -> None:
    segment(source, 0, entry(0), b"garbage in the middle of it all")
    segment(source, 1, entry(1))
    with pytest.raises(Damaged, match="damaged at byte"):
        import_transporter(log, source, "imported")
    assert log.topics() == []


def test_bad_input(source: Path, log: EmbeddedLog, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="holds no transporter log"):
        import_transporter(log, source, "imported")
    with pytest.raises(BadInput, match="not a directory"):
        import_transporter(log, tmp_path / "nowhere", "imported")
    segment(source, 0, entry(0))
    log.create_topic("full")
    log.append("full", 0, [Record(b"k", b"v")])
    with pytest.raises(AlreadyExists, match="holds records already"):
        import_transporter(log, source, "full")


@pytest.mark.parametrize(
    "files",
    [
        {100: entry(5) + entry(6)},  # below the offset that names the file
        {0: entry(0) + entry(1) + entry(2), 2: entry(2) + entry(3)},  # twice
        {0: entry(0) + b"\xff" * 40 + entry(1) + entry(2)},  # not only the end of the last file
        {0: entry(0, seconds=1 << 60)},
        {1 << 63: entry(1 << 63)},
        {0: entry((1 << 64) - 1)},
        {10**20 - 1: entry(0)},
    ],
    ids=["below", "twice", "middle", "time", "offset", "last-offset", "name"],
)
def test_a_last_file_that_makes_no_sense_is_refused_and_not_called_unfinished(
    source: Path, log: EmbeddedLog, files: dict[int, bytes]
) -> None:
    for base, raw in files.items():
        segment(source, base, raw)
    with pytest.raises(Damaged, match=r"damaged at byte|too large"):
        import_transporter(log, source, "imported")
    assert log.topics() == []


@pytest.mark.parametrize("torn", [b"\0" * 100, entry(1)[:5], entry(1)[:26], entry(3)[:-1]], ids=["zeros", "start", "head", "nearly"])
def test_what_a_crash_leaves_at_the_end_is_unfinished(source: Path, log: EmbeddedLog, torn: bytes) -> None:
    segment(source, 0, entry(0), torn)
    done = import_transporter(log, source, "imported")
    assert (done.records, done.torn) == (1, len(torn))


def test_times_before_1970_become_its_beginning(source: Path, log: EmbeddedLog) -> None:
    """Go's zero time is one: as milliseconds without a sign it would lie half a billion years ahead for some readers only."""
    segment(source, 0, entry(0, seconds=(1 << 64) - 62_135_596_800), entry(1))
    import_transporter(log, source, "imported")
    assert [one.timestamp for one in log.read("imported", 0, 0)] == [0, 1_491_252_302_000]
    assert next(log.scan("imported", 0, 0)).column("timestamp").to_pylist() == [0, 1_491_252_302_000]


def test_only_files_with_names_of_plain_digits_are_read(source: Path, log: EmbeddedLog) -> None:
    (source / f"{'²' * 20}.log").write_bytes(entry(0))
    (source / f"{'٣' * 20}.log").write_bytes(entry(0))
    with pytest.raises(BadInput, match="holds no transporter log"):
        import_transporter(log, source, "imported")
    (source / f"{0:020d}.log").mkdir()
    with pytest.raises(Damaged, match="is a folder, and must be a file"):
        import_transporter(log, source, "imported")


@pytest.mark.parametrize("count", [1, 3])
def test_segments_of_a_headwater_log_are_refused(source: Path, log: EmbeddedLog, count: int) -> None:
    """Their names and heads look like transporter's: read as such, values would end in trailers, and times would be years away."""
    log.create_topic("pipeline-shop", part="pipeline")
    log.append("pipeline-shop", 0, [Record(b"k", b"v")] * count, part="pipeline")
    folder = log.data / "log" / "pipeline-shop" / "0"
    (source / f"{0:020d}.log").write_bytes((folder / f"{0:020d}.log").read_bytes())
    for directory in (folder, source):
        with pytest.raises(BadInput, match="headwater log"):
            import_transporter(log, directory, "copy")
    assert [topic.name for topic in log.topics()] == ["pipeline-shop"]


def test_nothing_is_imported_into_a_topic_of_a_part(source: Path, log: EmbeddedLog) -> None:
    segment(source, 0, entry(0))
    log.create_topic("theirs", part="pipeline")  # empty, and its name does not tell its owner
    for name in ("theirs", "pipeline-new"):
        with pytest.raises(OwnedTopic):
            import_transporter(log, source, name)
    assert log.bounds("theirs", 0).end == 0
    assert [topic.name for topic in log.topics()] == ["theirs"]
