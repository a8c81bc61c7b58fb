"""Reads by offset against a plain dict, through every way that a record can be found; and files that get lost."""

from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.descriptors import open_below
from tests.examples import examples

from headwater.log.embedded import scattered
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.scattered import CheckedBatches
from headwater.log.record import Record, TopicSettings


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that a few records reach: batches are remembered and forgotten, views closed, ends of batches searched for."""
    for name, value in (("_SMALL", 200), ("_NEAR", 2), ("_VIEWS", 2), ("_REMEMBERED", 6)):
        monkeypatch.setattr(scattered, name, value)


def record(offset: int, keys: int = 5) -> Record:
    return Record(b"%d" % (offset % keys), b"%d " % offset * (offset % 11), timestamp=offset, offset=offset)


def fill(log: EmbeddedLog, sizes: list[int], *, segment: int = 2000) -> dict[int, Record]:
    log.create_topic("t", settings=TopicSettings(segment=segment))
    end = 0
    for size in sizes:
        log.append("t", 0, [record(offset) for offset in range(end, end + size)])
        end += size
    return {offset: record(offset) for offset in range(end)}


class Steps:
    APPEND = st.tuples(st.just("append"), st.sampled_from([1, 2, 3, 10, 70, 300]))
    OTHERS = st.tuples(st.sampled_from(["delete", "compact", "reopen", "read"]), st.integers(0, 1000))


@pytest.mark.parametrize("segment", [300, 5000])
@settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(Steps.APPEND | Steps.OTHERS, min_size=1, max_size=25), random=st.randoms(use_true_random=False))
def test_it_is_a_dict(narrow: None, segment: int, steps: list[tuple[str, int]], random: Random) -> None:
    """Two logs, one of which writes: appends, deletions and compactions; whatever is not in the model is told as missing."""
    with TemporaryDirectory() as data:
        log, other = EmbeddedLog(data), EmbeddedLog(data, read_only=True)
        log.create_topic("t", settings=TopicSettings(segment=segment))
        model: dict[int, Record] = {}
        end = 0
        try:
            for step, number in steps:
                if step == "append":
                    for offset in log.append("t", 0, [record(offset) for offset in range(end, end + number)]):
                        model[offset] = record(offset)
                    end += number
                elif step == "delete":
                    start = log.delete_before("t", 0, end * number // 1000)
                    model = {offset: kept for offset, kept in model.items() if offset >= start}
                elif step == "compact":
                    log.compact("t", 0, end * number // 1000)
                    start = log.bounds("t", 0).start
                    model = {one.offset or 0: one for one in log.read("t", 0, start, limit=100_000, max_bytes=1 << 30)}
                elif step == "reopen":
                    other.close()
                    other = EmbeddedLog(data, read_only=True)
                for reader in (log, other):
                    asked = [random.randrange(end) for _ in range(random.choice([1, 4, 40])) if end]
                    assert reader.read_at("t", 0, asked) == [model.get(offset) for offset in asked]
        finally:
            log.close()
            other.close()


def test_a_record_inside_of_a_value_is_not_taken_for_one(tmp_path: Path) -> None:
    """A sidecar that points into a value, at bytes which look like the record that is asked for."""
    from headwater.log.encoding import encode
    from headwater.log.layout import seal

    inner = encode([Record(b"k", b"forged")], now=1)
    seal(inner, 1, 0)
    outer = [Record(b"k", b"true %d" % n + bytes(inner.buffer) + b"end") for n in range(40)]
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("t")
        log.append("t", 0, outer)
    folder = tmp_path / "log" / "t" / "0"
    (data,) = folder.glob("*.log")
    (sidecar,) = folder.glob("*.pos")
    forged = data.read_bytes().index(b"forged") - 26 - 4
    rows = sidecar.read_bytes()
    for place in (forged, data.read_bytes().index(b"forged", forged + 60) - 26 - 4):
        assert data.read_bytes()[place : place + 8] == (1).to_bytes(8, "big")
        sidecar.write_bytes(rows[:4] + place.to_bytes(4, "little") + rows[8:])
        with EmbeddedLog(tmp_path, read_only=True) as log:
            for _ in range(2):  # checked for the first time, and remembered
                found = log.read_at("t", 0, [1, 7])
                assert [one.value for one in found if one] == [outer[1].value, outer[7].value]
            assert [one.value for one in log.read("t", 0, 1, limit=2)] == [outer[1].value, outer[2].value]
            assert next(log.scan("t", 0, 1)).column("value")[0].as_py() == outer[1].value


def test_a_large_batch_is_checked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedLog(tmp_path) as log:
        model = fill(log, [500, 500])
        sums: list[int] = []
        real = scattered.crc32c
        monkeypatch.setattr(scattered, "crc32c", lambda data: sums.append(len(data)) or real(data))
        for _ in range(20):
            for offset in (3, 499, 250, 700, 999):
                assert log.read_at("t", 0, [offset]) == [model[offset]]
        assert len(sums) == 2


def test_many_segments_take_few_descriptors(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        model = fill(log, [40] * 60, segment=100)
        before = open_below(tmp_path)
        for _ in range(3):
            assert log.read_at("t", 0, list(model)) == list(model.values())
        assert open_below(tmp_path) - before <= 12


def test_checked_batches_are_found_by_any_byte_of_theirs() -> None:
    checked = CheckedBatches()
    for begin, end in ((500, 700), (0, 100), (100, 200)):
        checked.add(begin, end)
    assert len(checked) == 3
    assert [checked.end(at) for at in (0, 99, 100, 199, 200, 499, 500, 699, 700)] == [100, 100, 200, 200, 0, 0, 700, 700, 0]
