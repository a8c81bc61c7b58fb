from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.documents.feed_ground import FeedGround, feed_ground
from tests.unit.documents.logged import LoggedDocuments

from headwater.testing.document_history import definition


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[FeedGround]:
    """A log and stores, with a writer of histories."""
    with feed_ground(tmp_path) as made:
        yield made


@pytest.fixture
def logged(tmp_path: Path) -> Iterator[LoggedDocuments]:
    """Documents and a collection with an index, in the log and in the store."""
    logged = LoggedDocuments(tmp_path)
    history = logged.history
    for number in range(20):
        history.put("c~", f"{number:02}", p=number % 3)
        history.put(f"d/{number}", text="x" * number)
    history.set_index("c~", definition(1, "p"))
    history.set_index("c~", definition(1, "p", state="ready"))
    history.delete("c~", "03")
    history.delete("d/7")
    history.put("e~", "1")
    history.delete("e~")
    logged.append()
    yield logged
    logged.close()
