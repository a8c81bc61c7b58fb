from __future__ import annotations

from typing import Any

from headwater.adaptors.documents.changed import ChangedDocuments
from headwater.adaptors.headwater.connection import opened
from headwater.documents.path import partition_of
from headwater.pipeline.adaptors import documents


def test_it_knows_what_has_changed_behind_a_cursor_until_now(data: str, shop: Any) -> None:
    shop["a~"].put("before", {})
    with opened(documents("a~", address=data).log(), read_only=True) as log:
        topic = log.find("hyper-storage")
        number = partition_of("a~", topic.partitions)
        changed = ChangedDocuments(log, topic, {str(number): [log.bounds(topic.name, number).end, 0]})
        assert changed.since("a~") == set()
        shop["a~"].put("x", {})
        shop["a~"].delete("before")
        assert changed.since("a~") == {("a~", "x"), ("a~", "before")}
        assert changed.since("a~") == {("a~", "x"), ("a~", "before")}
        shop["a~"].delete()
        assert ("a~", "") in changed.since("a~")
