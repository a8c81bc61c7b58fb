"""Actions as columns say the same as the fold of the records themselves."""

from __future__ import annotations

from functools import reduce

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from headwater.journal.action import Action, ActionRecord, Append, Delete, Mark, Purge
from headwater.journal.actions import AppendPlace, TailActions
from headwater.journal.head import EMPTY, Expiry, HeadFold, fold_of

ACTIONS = st.one_of(
    st.tuples(st.integers(1, 9), st.integers(0, 3)).map(lambda pair: Append(pair[0], sum(pair))),
    st.integers(1, 12).map(Delete),
    st.just(Purge()),
    st.just(Mark("m")),
)


def records_of(actions: list[Action]) -> list[ActionRecord]:
    return [ActionRecord("a", action, offset, 1000 + offset) for offset, action in enumerate(actions)]


def without_origin(fold: HeadFold) -> HeadFold:
    return msgspec.structs.replace(fold, expiry=None if fold.expiry is None else Expiry(None, fold.expiry.timestamp))


@given(st.lists(ACTIONS, max_size=12), st.integers(0, 12), st.integers(0, 12))
def test_the_fold_of_any_stretch_is_that_of_its_records(actions: list[Action], start: int, end: int) -> None:
    tail, records = TailActions(), records_of(actions)
    added = [tail.add(record) for record in records]
    assert added == [not isinstance(action, Mark) for action in actions]
    folded = reduce(HeadFold.then, (fold_of(record) for record in records if start <= record.offset < end), EMPTY)
    assert tail.between(start, end).fold() == without_origin(folded)
    joined = tail.between(0, start)
    joined.extend(tail.between(start, 99))
    assert joined.fold() == tail.fold()


def test_appends_and_what_cannot_be_read() -> None:
    tail = TailActions()
    for record in records_of([Append(1, 2), Delete(1), Append(3, 3), Mark("m")]):
        tail.add(record)
    assert list(tail.appends()) == [AppendPlace(1, 2, 0), AppendPlace(3, 3, 2)]
    assert list(tail.appends(1)) == [AppendPlace(3, 3, 2)]
    assert (len(tail), tail.newest_append(), tail.unreadable()) == (3, 2, None)
    tail.add_unreadable(4)
    assert tail.unreadable() == 4
    tail.add(ActionRecord("a", Purge(), 5, 0))
    assert tail.newest_append() is None
