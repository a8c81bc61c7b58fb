"""What cannot be asked of journals."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.core.errors import BadInput
from headwater.journal import requests
from headwater.journal.bodies import body_of
from headwater.journal.position import FollowPosition

A = {"topic": "bank", "id": "a"}


def test_what_can_be_asked() -> None:
    for request in (
        requests.HeadRequest(**A),
        requests.ReadEvents(**A, start=1, stop=1, limit=0),
        requests.DeleteEvents(**A, to=1),
        requests.MarkJournal(**A, mark="m"),
        requests.LookAtJournals(topic="bank", view="status"),
    ):
        request.check()


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (requests.JournalsRequest, {"topic": "a/b"}),
        (requests.JournalRequest, {"topic": "bank", "id": ""}),
        (requests.HeadRequest, {**A, "consistency": "soon"}),
        (requests.ReadEvents, {**A, "start": 0}),
        (requests.ReadEvents, {**A, "start": 2, "stop": 1}),
        (requests.ReadEvents, {**A, "limit": -1}),
        (requests.DeleteEvents, {**A, "to": 0}),
        (requests.MarkJournal, {**A, "mark": ""}),
        (requests.LookAtJournals, {"topic": "bank", "view": "all"}),
        (requests.FollowJournals, {"topic": "bank", "after": "x"}),
        (requests.FollowJournals, {"topic": "bank", "tags": "[1]"}),
        (requests.AppendEvents, {**A, "if_match": "*"}),
        (requests.AppendEvents, {**A, "idempotency": ""}),
        (requests.AppendEvents, {**A, "if_match": '"3"', "body": body_of([1], expected=4)}),
    ],
)
def test_what_cannot(kind: Any, given: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        kind(**given).check()


def test_if_match_is_the_last_number() -> None:
    for written in ('"3"', "3", 'W/"3"'):
        assert requests.AppendEvents(**A, if_match=written).expected() == 3
    assert requests.AppendEvents(**A, if_match='"0"', body=body_of([1], expected=0)).expected() == 0
    assert requests.AppendEvents(**A, body=body_of([1])).expected() is None


def test_texts_are_listed_with_commas_or_as_json() -> None:
    request = requests.FollowJournals(topic="bank", tags="a,b", ids='["x,y"]', after="3", last_event="9")
    assert (request.wanted_tags(), request.wanted_ids(), request.position()) == ({"a", "b"}, {"x,y"}, FollowPosition.read("9"))
    assert requests.FollowJournals(topic="bank", last_event="9").position() == FollowPosition.read("9")
    assert (requests.listed(None, "ids"), requests.listed({"b", "a"}, "ids")) == (None, '["a","b"]')
    for bad in ("abc", [1], 7):
        with pytest.raises(BadInput):
            requests.listed(bad, "ids")  # type: ignore[arg-type]
