"""Opening the stores that the settings name."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from headwater.core.errors import BadConfig
from headwater.core.settings import Settings, StoreSettings
from headwater.documents.store_address import open_stores


def test_stores_of_sqlite_are_below_the_data_directory(tmp_path: Path) -> None:
    with open_stores(Settings(), tmp_path) as stores:
        stores.partition(3, "g").apply([], 1)
    assert (tmp_path / "store" / "documents" / "3.db").exists()


def test_a_keyspace_needs_a_node(tmp_path: Path) -> None:
    settings = msgspec.structs.replace(Settings(), store=StoreSettings(engine="cassandra"))
    with pytest.raises(BadConfig, match="contact_points"):
        open_stores(settings, tmp_path)
