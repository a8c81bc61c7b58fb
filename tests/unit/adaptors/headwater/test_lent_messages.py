"""Messages that tasks of another pipeline have written: which of them count, as its offset log says it."""

from __future__ import annotations

from headwater.adaptors.headwater.lent_messages import LentMessages
from headwater.log.epochs import EPOCH, LENT, mark
from headwater.log.record import Record
from headwater.pipeline.offsets.state import ReaderState


def records(*offsets: int, name: str = LENT) -> list[Record]:
    return [Record(b"t", b"{}", ((name, mark(1)),), offset=offset) for offset in offsets]


def state(**fields: object) -> ReaderState:
    return ReaderState(run="c", plan={}, begun=0, **fields)  # type: ignore[arg-type]


def test_nobody_is_asked_about_records_of_the_run_itself() -> None:
    def ask() -> ReaderState:
        raise AssertionError

    assert LentMessages(ask).decided(records(1, 2, name=EPOCH)) == (set(), None)


def test_what_the_run_has_not_decided_ends_the_portion_and_is_asked_again() -> None:
    answers = [state(lent=((0, 3),), upto=5), state(lent=((0, 3), (6, 8)), upto=6), state(lent=((0, 3), (6, 8)), upto=6, copied=True)]
    messages = LentMessages(lambda: answers.pop(0))
    assert messages.decided(records(1, 2, 3, 4, 5)) == ({3, 4}, 5)
    assert messages.decided(records(2)) == (set(), None)  # known
    assert messages.decided(records(5, 6, 9)) == ({5}, 9)
    assert messages.decided(records(9)) == ({9}, None)  # the copy is over: nothing more will be taken


def test_the_answer_for_a_finished_copy_holds_for_the_records_that_were_read_before_it() -> None:
    answers = [state(copied=True), state(upto=20)]  # then it was read anew
    messages = LentMessages(lambda: answers.pop(0))
    assert messages.decided(records(9)) == ({9}, None)
    assert messages.decided(records(21)) == (set(), 21)


def test_a_pipeline_without_a_state_has_decided_nothing() -> None:
    assert LentMessages(lambda: None).decided(records(1)) == (set(), 1)
