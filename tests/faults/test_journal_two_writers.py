"""Two processes write one journal, and the other one comes between the numbering and the append of the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from headwater.core.errors import WrongExpected
from headwater.journal.append_draft import draft
from headwater.journal.event import Event
from headwater.journal.sqlite import SqliteJournalStore
from headwater.journal.write import ActionPlaced, Appended, Condition, DeleteDraft, PurgeDraft
from headwater.log import Guard
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.testing.journal_cases_ground import CaseJournals


class InterruptedLog(EmbeddedLog):
    """Calls `meanwhile` once, before the next append."""

    meanwhile: Callable[[], object] | None = None

    def append(self, topic: str, partition: int, records: Sequence[Record], *, guard: Guard | None = None, part: str = "") -> list[int]:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return list(super().append(topic, partition, records, guard=guard, part=part))


@pytest.fixture
def pair(tmp_path: Path) -> tuple[CaseJournals, CaseJournals]:
    one = CaseJournals(InterruptedLog(tmp_path / "log"), SqliteJournalStore(tmp_path / "store"))
    other = CaseJournals(EmbeddedLog(tmp_path / "log"), SqliteJournalStore(tmp_path / "store"))
    other.topic = one.topic
    other.reopen()
    return one, other


def _meanwhile(one: CaseJournals, call: Callable[[], object]) -> None:
    assert isinstance(one.log, InterruptedLog)
    one.log.meanwhile = call


def test_numbers_go_on_behind_the_other(pair: tuple[CaseJournals, CaseJournals]) -> None:
    one, other = pair
    one.append("a", 1)
    _meanwhile(one, lambda: other.append("a", 2))
    one.append("a", 3)
    one.shows("a", [1, 2, 3], 3)


def test_expected_is_looked_at_again(pair: tuple[CaseJournals, CaseJournals]) -> None:
    one, other = pair
    one.append("a", 1)
    _meanwhile(one, lambda: other.append("a", 2))
    with pytest.raises(WrongExpected, match="ends with event 2"):
        one.append("a", 2, expected=1)
    one.shows("a", [1, 2], 2)


def test_a_purge_between_begins_anew(pair: tuple[CaseJournals, CaseJournals]) -> None:
    one, other = pair
    one.append("a", 1, 2)
    _meanwhile(one, lambda: other.purge("a"))
    one.append("a", 1)
    one.shows("a", [1], 1)


@pytest.mark.parametrize("asked", [DeleteDraft("a", 9), PurgeDraft("a")])
def test_a_delete_or_purge_of_what_was_purged_between_writes_nothing(
    pair: tuple[CaseJournals, CaseJournals], asked: DeleteDraft | PurgeDraft
) -> None:
    one, other = pair
    one.append("a", 1, 2)
    _meanwhile(one, lambda: other.purge("a"))
    assert one.write(asked) is None
    assert one.end() == 2


def test_a_delete_is_capped_by_what_is_there(pair: tuple[CaseJournals, CaseJournals]) -> None:
    one, other = pair
    one.append("a", 1)
    _meanwhile(one, lambda: other.append("a", 2, 3))
    placed = one.write(DeleteDraft("a", 2))
    assert isinstance(placed, ActionPlaced)
    assert placed.to == 2
    one.shows("a", [3], 3)


@pytest.mark.parametrize("given", [False, True], ids=["numbered", "numbers given"])
@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
def test_an_idempotency_key_that_both_use_is_done_once(pair: tuple[CaseJournals, CaseJournals], given: bool, known: bool) -> None:
    one, other = pair
    first = 1
    if known:
        one.append("a", 1)
        first = 2
    made = draft("a", [Event("x", first) if given else "x"])
    condition = Condition(None, "key", made.digest(None))
    _meanwhile(one, lambda: other.write(made, condition))
    outcome = one.write(made, condition)
    assert isinstance(outcome, Appended)
    assert (outcome.first, outcome.replayed) == (first, True)
    one.shows("a", range(1, first + 1), first)
    assert one.end() == first
