from __future__ import annotations

from headwater.queue.catalogue_fold import QueueEntry
from headwater.queue.summary import summary_of


def test_a_queue_tells_its_declaration_and_their_versions() -> None:
    shown = summary_of(QueueEntry(name="pages", region=1, table=1, version=3, declaration="<table/>", declared=2), created=True)
    assert (shown.version, shown.declaration, shown.declared, shown.created) == (3, "<table/>", 2, True)
    assert shown.settings["lease"] == "1h"
