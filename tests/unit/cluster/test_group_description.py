"""A group is described without the client's own timer, one question at a time."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.cluster.group_description import GroupDescription


class FakeError(Exception):
    _TIMED_OUT = -185

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class FakeException(Exception):
    pass


KAFKA = SimpleNamespace(KafkaError=FakeError, KafkaException=FakeException)


class FakeAdmin:
    """Notes every question, and leaves its answer to the test."""

    def __init__(self) -> None:
        self.asked: list[Future[Any]] = []
        self.seconds: list[float] = []

    def describe_consumer_groups(self, groups: list[str], *, request_timeout: float) -> dict[str, Future[Any]]:
        self.asked.append(Future())
        self.seconds.append(request_timeout)
        return {groups[0]: self.asked[-1]}


class AnsweringAdmin(FakeAdmin):
    def describe_consumer_groups(self, groups: list[str], *, request_timeout: float) -> dict[str, Future[Any]]:
        asked = super().describe_consumer_groups(groups, request_timeout=request_timeout)
        asked[groups[0]].set_result(len(self.asked))
        return asked


def description(admin: FakeAdmin, patience: float = 0.0) -> GroupDescription:
    return GroupDescription(admin, "owners", kafka=KAFKA, patience=patience)  # type: ignore[arg-type]


def test_every_call_asks_anew() -> None:
    admin = AnsweringAdmin()
    group = description(admin)
    assert [group.now(), group.now()] == [1, 2]


def test_the_client_has_far_more_time_than_the_caller() -> None:
    admin = FakeAdmin()
    with pytest.raises(FakeException) as raised:
        description(admin).now()
    assert raised.value.args[0].code == FakeError._TIMED_OUT
    assert min(admin.seconds) >= 3600


def test_a_caller_behind_an_unanswered_question_asks_no_second_one() -> None:
    admin = FakeAdmin()
    group = description(admin)
    for _ in range(3):
        with pytest.raises(FakeException):
            group.now()
    assert len(admin.asked) == 1


def test_the_answer_to_an_earlier_question_is_not_taken_for_the_group_of_now() -> None:
    admin = FakeAdmin()
    group = description(admin)
    with pytest.raises(FakeException):
        group.now()
    admin.asked[0].set_result("as it was")
    with pytest.raises(FakeException):
        group.now()
    assert len(admin.asked) == 2
    admin.asked[1].set_result("too late for its caller")
    admin.describe_consumer_groups = AnsweringAdmin().describe_consumer_groups  # type: ignore[method-assign]
    assert group.now() == 1


def test_an_error_is_given_to_who_asked() -> None:
    admin = FakeAdmin()
    group = description(admin)
    with pytest.raises(FakeException):
        group.now()
    admin.asked[0].set_exception(FakeException("denied"))
    with pytest.raises(FakeException):
        group.now()
    assert len(admin.asked) == 2
