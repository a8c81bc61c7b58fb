"""What may be written side by side."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.log import Log, Record
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Mode
from headwater.pipeline.running.cutting import cut
from headwater.pipeline.running.pieces import complete_records

COUNT = 5000
END = COUNT + 1


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """Two copies of the same documents, and changes behind them."""
    with EmbeddedLog(tmp_path / "data") as log:
        log.create_topic("t")
        for _ in range(2):
            log.append("t", 0, [Record(b"a", b"{}") for _ in range(COUNT)])
            log.append("t", 0, complete_records(["a"]))
        log.append("t", 0, [Record(b"a", b"{}", mode=Mode.SYNC) for _ in range(COUNT)])
        yield log


def parts(log: Log, start: int, *, begun: int = END, ended: int = 0) -> tuple[list[tuple[int, int, int, int]], bool]:
    made = cut(log, "t", [(start, log.bounds("t", 0).end)], width=2, shares=2, most=200_000, copy=(begun, ended))
    return made.parts, made.shared


@pytest.mark.parametrize("begun", [0, END])
def test_two_copies_of_the_same_documents_are_not_written_side_by_side(log: Log, begun: int) -> None:
    half = COUNT // 2
    shared = [(0, COUNT, 0, 2), (0, COUNT, 1, 2)]
    assert parts(log, 0, begun=begun) == ((shared, True) if begun else ([(0, half, 0, 1), (half, COUNT, 0, 1)], False))
    assert parts(log, COUNT, begun=begun) == ([(COUNT, END, 0, 1)], False)
    assert parts(log, END, begun=begun)[0][-1][1] == END + COUNT


def test_older_copies_are_shared_out_because_one_that_was_broken_off_has_no_end(log: Log) -> None:
    """The second copy repeats its documents, and a third one may hold other namespaces alone."""
    log.create_topic("o")
    log.append("o", 0, [Record(b"a", b"{}") for _ in range(2 * COUNT)])
    log.append("o", 0, complete_records(["a"]))
    log.append("o", 0, [Record(b"b", b"{}") for _ in range(COUNT)])
    made = cut(log, "o", [(0, 3 * COUNT + 1)], width=2, shares=2, most=200_000, copy=(2 * COUNT + 1, sys.maxsize))
    assert (made.parts, made.shared) == ([(0, 2 * COUNT, 0, 2), (0, 2 * COUNT, 1, 2)], True)
    by_offset = cut(log, "o", [(0, 3 * COUNT + 1)], width=2, shares=1, most=200_000, copy=(2 * COUNT + 1, sys.maxsize), by_offset=True)
    assert (by_offset.parts, by_offset.shared) == ([(0, COUNT, 0, 1), (COUNT, 2 * COUNT, 0, 1)], False)


def test_a_copy_that_was_broken_off_ends_where_the_next_one_begins(log: Log) -> None:
    assert parts(log, 0, begun=3000)[0][-1][1] == 3000
    assert parts(log, 3000, begun=3000, ended=sys.maxsize)[0][0][0] == 3000


def test_a_copy_whose_end_is_known_is_cut_without_reading_it_and_not_beyond(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "scan", None)
    half = END + COUNT // 2
    assert parts(log, END, ended=END + COUNT) == ([(END, half, 0, 1), (half, END + COUNT, 0, 1)], False)
    made = cut(log, "t", [(END, END + 10), (END + 20, 3 * END)], width=2, shares=2, most=200_000, copy=(END, END + 30))
    assert made.parts == [(END, END + 10, 0, 1), (END + 20, END + 30, 0, 1)]


def test_a_copy_whose_ids_repeat_is_shared_out_as_changes_are(log: Log) -> None:
    made = cut(log, "t", [(END, 3 * END - 1)], width=2, shares=2, most=200_000, copy=(END, END + COUNT), repeats=True)
    assert (made.parts, made.shared) == ([(END, END + COUNT, 0, 2), (END, END + COUNT, 1, 2)], True)
    alone = cut(log, "t", [(0, 3 * END - 1)], width=2, shares=1, most=200_000, copy=(END, END + COUNT), repeats=True)
    assert (alone.parts, alone.shared) == ([(0, COUNT, 0, 1)], False)


def test_changes_are_shared_out(log: Log) -> None:
    start, end = 2 * END, 2 * END + COUNT
    assert parts(log, start) == ([(start, end, 0, 2), (start, end, 1, 2)], True)
