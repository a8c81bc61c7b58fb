"""What cannot be asked of changes of documents."""

from __future__ import annotations

import pytest

from headwater.core.errors import BadInput
from headwater.documents.follow_requests import ListTransactions, PollContent, RestoreContent
from headwater.wire.operation import Request


def test_a_feed_is_of_a_path_or_of_everything_below_it() -> None:
    assert PollContent(path="shop/").is_prefix
    assert not PollContent(path="shop").is_prefix
    assert PollContent(path="a", after="3", last_event="2").position == "2"
    assert PollContent(path="a", last_event="2").position == "2"
    assert PollContent(path="a", snapshot="").snapped
    assert PollContent(path="a", prefer="wait=3").waits() == 3.0


@pytest.mark.parametrize(
    "refused",
    [PollContent(path="a//"), PollContent(path="a b"), RestoreContent(path="a", revision=1, if_match="x"), ListTransactions(path="a b")],
)
def test_what_cannot_be_asked_is_refused(refused: Request) -> None:
    with pytest.raises(BadInput):
        refused.check()


def test_the_transactions_of_an_item_are_those_of_its_collection() -> None:
    assert ListTransactions(path="a~/1").uri == "a~"
