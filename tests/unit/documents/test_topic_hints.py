"""What to do instead of changing the topic of documents by hand."""

from __future__ import annotations

import pytest

from headwater.documents.topic_hints import instead


@pytest.mark.parametrize(
    ("operation", "says"),
    [("append", "doc put"), ("create_topic", "first write"), ("compact", "documents.keep"), ("delete_topic", "doc --help")],
)
def test_the_hint_names_what_does_it(operation: str, says: str) -> None:
    assert says in instead("hyper-storage", operation)
