"""Many requests at once, tried again where it may help."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from cassandra import InvalidRequest, OperationTimedOut, Unavailable
from cassandra.cluster import NoHostAvailable

from headwater.core.errors import BadInput, Closed, OutcomeUnknown, Timeout, Unreachable
from headwater.core.errors import Unavailable as UnavailableHere
from headwater.store.cassandra.requests import Requests


class Pauses:
    """A clock that waits for nothing and notes how long it would have."""

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.pauses.append(seconds)
        return False


class Answer:
    def __init__(self, rows: list[tuple[Any, ...]], state: bytes | None = None) -> None:
        self.current_rows, self.paging_state, self.has_more_pages = rows, state, state is not None


class Future:
    def __init__(self, session: Session, request: Any, state: bytes | None) -> None:
        self._session, self._request, self._state = session, request, state
        session.under_way += 1
        session.most = max(session.most, session.under_way)

    def result(self) -> Answer:
        self._session.under_way -= 1
        return self._session.answer(self._request, self._state)


class Session:
    def __init__(self, answer: Callable[[Any, bytes | None], Answer]) -> None:
        self.answer, self.under_way, self.most = answer, 0, 0

    def execute_async(self, request: Any, paging_state: bytes | None = None) -> Future:
        return Future(self, request, paging_state)


class Bound:
    def __init__(self, statement: str, values: Any) -> None:
        self.values, self.fetch_size = values, 0
        self.prepared_statement = type("Prepared", (), {"query_string": statement})


class Prepared:
    is_idempotent = False

    def __init__(self, statement: str) -> None:
        self._statement = statement

    def bind(self, values: Any) -> Bound:
        assert self.is_idempotent
        return Bound(self._statement, values)


class ScriptedKeyspace:
    where, timeout = "a keyspace", 10.0

    def __init__(self, answer: Callable[[Any, bytes | None], Answer]) -> None:
        self.session, self.closed = Session(answer), False

    def prepared(self, statement: str) -> Prepared:
        return Prepared(statement)

    def check_open(self) -> None:
        if self.closed:
            raise Closed("It is closed.")


def requests_of(
    answer: Callable[[Any, bytes | None], Answer], *, window: int = 4, jitter: float = 1.0
) -> tuple[Requests, ScriptedKeyspace, Pauses]:
    keyspace, clock = ScriptedKeyspace(answer), Pauses()
    return Requests(keyspace, window=window, tries=4, clock=clock, jitter=lambda: jitter), keyspace, clock  # type: ignore[arg-type]


def failing(times: int, error: Exception) -> Callable[[Any, bytes | None], Answer]:
    left = [times]

    def answer(request: Any, state: bytes | None) -> Answer:
        if left[0]:
            left[0] -= 1
            raise error
        return Answer([(1,)])

    return answer


def test_answers_come_in_order_and_few_are_under_way() -> None:
    requests, keyspace, _ = requests_of(lambda request, state: Answer([(request.values,)]))
    answers = requests.all(requests.bound("select", number) for number in range(20))
    assert list(answers) == [[(number,)] for number in range(20)]
    assert keyspace.session.most == 4


def test_what_passes_is_tried_again_with_growing_pauses() -> None:
    for error in (OperationTimedOut(), Unavailable("few nodes"), NoHostAvailable("none", {})):
        requests, _, clock = requests_of(failing(3, error))
        assert requests.one("insert", ()) == [(1,)]
        assert clock.pauses == [0.05, 0.1, 0.2]
    requests, _, clock = requests_of(failing(3, OperationTimedOut()), jitter=0.0)
    requests.write([requests.bound("insert", ())])
    assert clock.pauses == [0.025, 0.05, 0.1]


@pytest.mark.parametrize(
    ("error", "expected", "pauses"),
    [
        (OperationTimedOut(), OutcomeUnknown, 3),
        (Unavailable("few nodes"), UnavailableHere, 3),
        (NoHostAvailable("none", {}), Unreachable, 3),
        (InvalidRequest("no such table"), BadInput, 0),
    ],
)
def test_after_the_last_try_the_error_is_raised(error: Exception, expected: type[Exception], pauses: int) -> None:
    requests, keyspace, clock = requests_of(failing(99, error))
    with pytest.raises(expected):
        requests.write(requests.bound("insert", number) for number in range(9))
    assert len(clock.pauses) == pauses
    assert keyspace.session.under_way == 0  # none of the others comes late


def test_a_request_that_takes_all_of_its_time_is_not_made_again() -> None:
    def answer(request: Any, state: bytes | None) -> Answer:
        clock.now += 4
        raise OperationTimedOut

    requests, _, clock = requests_of(answer)
    with pytest.raises(Timeout):
        requests.one("select", ())
    assert clock.now == 12
    with pytest.raises(Timeout):
        list(requests.pages("select", ()))
    assert clock.now == 24
    with pytest.raises(OutcomeUnknown):
        requests.write([requests.bound("insert", ())])  # a copy has time
    assert clock.now == 40


def test_all_pages_are_read_and_each_is_tried_again() -> None:
    asked: list[bytes | None] = []

    def answer(request: Any, state: bytes | None) -> Answer:
        asked.append(state)
        if asked == [None, b"1"]:
            raise OperationTimedOut()
        number = int(state or b"0")
        return Answer([(number,)] if number != 2 else [], b"%d" % (number + 1) if number < 3 else None)

    requests, _, _ = requests_of(answer)
    assert list(requests.pages("select", ())) == [[(0,)], [(1,)], [(3,)]]
    assert asked == [None, b"1", b"1", b"2", b"3"]
    asked.clear()
    assert requests.one("select", ()) == [(0,), (1,), (3,)]


def test_a_closed_keyspace_is_not_asked() -> None:
    requests, keyspace, clock = requests_of(lambda request, state: Answer([]))
    keyspace.closed = True
    with pytest.raises(Closed):
        requests.one("select", ())
    assert clock.pauses == []
