"""Opening the stores that the settings name."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from headwater.core.config import load
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


def test_a_log_on_kafka_is_shortened_only_with_a_store_that_all_servers_share(tmp_path: Path) -> None:
    settings = read_settings(tmp_path, kafka=True)
    with pytest.raises(BadConfig, match=r"documents\.keep") as refused:
        open_stores(settings, tmp_path)
    assert "cassandra" in refused.value.hint
    assert not (tmp_path / "store").exists()
    with open_stores(read_settings(tmp_path, kafka=False), tmp_path):
        pass


def read_settings(folder: Path, *, kafka: bool) -> Settings:
    log = '[log]\nengine = "kafka"\n[kafka]\nbootstrap = "localhost:1"\n' if kafka else ""
    (folder / "headwater.toml").write_text(f'{log}[documents]\nkeep = "30d"\n')
    return load(file=folder / "headwater.toml", environ={}, cwd=folder).settings
