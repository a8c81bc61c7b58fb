from __future__ import annotations

import pytest

from headwater.adaptors.queue.template import Template
from headwater.core.errors import BadInput
from headwater.pipeline.message import Message

MESSAGE = Message("shop", {"_id": 7, "path": "/about", "deep": {"n": 1.5, "list": [1]}, "none": None})


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("{id}", "7"),
        ("page:{path}", "page:/about"),
        ("{namespace}/{_id}", "shop/7"),
        ("{deep.n}-{deep.list}", "1.5-[1]"),
        ("constant", "constant"),
        ("", ""),
    ],
)
def test_fields_are_filled_in(text: str, wanted: str) -> None:
    assert Template(text).filled(MESSAGE) == wanted


@pytest.mark.parametrize("text", ["{none}", "{missing}", "{deep.missing}", "{path.deeper}"])
def test_a_document_without_the_field_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="no value for the field"):
        Template(text).filled(MESSAGE)


def test_a_document_without_an_id_is_refused() -> None:
    with pytest.raises(BadInput, match="no value for the id _id"):
        Template("a/{id}").filled(Message("shop", {}))


@pytest.mark.parametrize("text", ["{}", "{ }", "a{b", "a}b", "{{id}}"])
def test_braces_that_hold_no_field_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match="braces"):
        Template(text)
