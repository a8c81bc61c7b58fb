from __future__ import annotations

from headwater.core.settings import Settings
from headwater.documents.settings import DOCUMENTS_SECTION, DocumentSettings


def test_defaults_are_those_of_the_seed() -> None:
    found = DOCUMENTS_SECTION.of(Settings())
    assert found == DocumentSettings()
    assert (found.page_size, found.skip_max, found.max_reads, str(found.query_timeout)) == (100, 10_000, 20, "15s")
    assert (str(found.background_task_timeout), str(found.hot_recovery), str(found.hot_retry)) == ("2m", "30m", "15s")
    assert (str(found.stale_recovery), str(found.stale_retry), found.max_stash, found.keep) == ("1d", "3m", 4096, 0)
