"""Tags of revisions, and the conditions that the headers make of them."""

from __future__ import annotations

import pytest

from headwater.core.errors import BadInput
from headwater.documents.etag import condition_of, etag, matches
from headwater.documents.write import ANY_STATE, Precondition


def test_a_tag_is_strong_and_read_back() -> None:
    assert etag(7) == '"7"'
    assert condition_of(etag(7), None) == Precondition((7,), None)


@pytest.mark.parametrize(
    ("match", "none_match", "condition"),
    [
        (None, None, ANY_STATE),
        ("*", None, Precondition((), None)),
        (None, " * ", Precondition(None, ())),
        ('"1", "2"', None, Precondition((1, 2), None)),
        ('W/"1"', 'W/"1"', Precondition((-1,), (1,))),  # a weak tag never matches strongly
        ('"x"', '"x,y"', Precondition((-1,), (-1,))),  # no tag of ours
        ('""', None, Precondition((-1,), None)),
    ],
)
def test_headers_make_a_condition(match: str | None, none_match: str | None, condition: Precondition) -> None:
    assert condition_of(match, none_match) == condition


@pytest.mark.parametrize("written", ["3", "", " ", '"3', '"1" "2"', "W/3", "*, *", '"1",,"2"'])
def test_what_is_no_list_of_tags_is_refused(written: str) -> None:
    with pytest.raises(BadInput):
        condition_of(written, None)
    with pytest.raises(BadInput):
        condition_of(None, written)


def test_no_tags_match_whatever_is_there() -> None:
    assert matches((), 3)
    assert not matches((), None)
    assert matches((2, 3), 3)
    assert not matches((2,), 3)
