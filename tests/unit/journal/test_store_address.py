from __future__ import annotations

from pathlib import Path

from headwater.core.settings import Settings
from headwater.journal.store_address import open_store, store_address_of


def test_the_store_of_a_data_directory_is_opened_by_its_address(tmp_path: Path) -> None:
    with open_store(store_address_of(Settings(), tmp_path)) as store:
        assert store.topics() == []
