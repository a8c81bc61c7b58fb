from __future__ import annotations

import pytest
from tests.unit.queue.played import Played

from headwater.queue import kept_answers, records
from headwater.queue.date_heap import NEVER
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.kept_answers import KeptAnswers


def kept() -> tuple[KeptAnswers, list[int]]:
    """Answers, and the homes that they have left."""
    left, homes = list[int](), iter(range(1, 1000))
    return KeptAnswers(lambda: next(homes), left.append), left


def test_an_answer_is_kept_until_it_is_over_and_one_of_the_same_name_replaces_it() -> None:
    answers, left = kept()
    assert (answers.earliest, answers.oldest_home, len(answers)) == (NEVER, NEVER, 0)
    answers.keep(50, "a", bytes(16), [(1, 0, 5, 1)])
    answers.keep(60, "b", bytes(16), [])
    assert (answers.earliest, answers.oldest_home) == (50, 1)
    answers.keep(70, "a", bytes(16), [])
    assert ([name for name, _ in answers], left) == (["b", "a"], [1])
    answers.forget_until(59)
    assert len(answers) == 2
    answers.forget_until(60)
    assert (answers.get("b"), answers.earliest, answers.oldest_home, left) == (None, 70, 3, [1, 2])
    answers.forget_until(70)
    assert (len(answers), answers.size, answers.earliest) == (0, 0, NEVER)


def test_their_size_is_that_of_their_records() -> None:
    answers, _ = kept()
    for name, puts in (("ä" * 100, [(1, 0, 5, 1)] * 7), ("b", [])):
        answers.keep(50, name, bytes(16), puts)
    assert answers.size == sum(
        len(records.encode_answered(known.expires, name.encode(), known.digest, known.puts)) for name, known in answers
    )


def test_the_oldest_are_forgotten_where_they_take_too_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_answers, "MOST_BYTES", 10_000)
    answers, left = kept()
    for number in range(100):
        answers.keep(1000 + number, f"{number}", bytes(16), [])
    names = [name for name, _ in answers]
    assert 15 < len(names) < 25
    assert names == [f"{number}" for number in range(100 - len(names), 100)]
    assert (left, answers.earliest) == ([*range(1, 101 - len(names))], 1100 - len(names))
    answers.keep(5000, "large", bytes(16), [(1, 0, 5, 1)] * 1000)
    assert [name for name, _ in answers] == ["large"], "the newest is kept however large it is"


def test_a_fold_of_every_cut_of_a_log_forgets_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_answers, "MOST_BYTES", 3000)
    played = Played(EffectiveSettings())
    for number in range(30):
        played.record(lambda decisions, number=number: decisions.answered(played.now + 1000 + number, f"{number}", bytes(16), []))  # type: ignore[misc]
        if number % 7 == 0:
            played.record(lambda decisions: decisions.carry((), 200, before=played.fold.sequence - 1))
    assert len(played.fold.answers) < 8
    played.check_cuts()
