"""The address of a store of journals."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.core.errors import BadConfig
from headwater.core.settings import CassandraSettings, Settings, StoreSettings
from headwater.core.units import Duration
from headwater.journal.settings import JournalSettings
from headwater.journal.sqlite import SqliteJournalStore
from headwater.journal.store_address import StoreAddress, open_store, store_address_of
from headwater.testing.journal_store_ground import History, head_of, partition


def test_sqlite_lies_in_the_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings(store=StoreSettings(timeout=Duration(5_000)), sections={"journal": JournalSettings(segment_size=7)})
    address = store_address_of(settings, Path("data"))
    assert address == StoreAddress(folder=tmp_path / "data" / "store" / "journal", segment_size=7, timeout=5.0)
    history = History("journal-a")
    history.append("a", 1)
    travelled = pickle.loads(pickle.dumps(address))
    with open_store(travelled) as store:
        assert isinstance(store, SqliteJournalStore)
        copy = partition(store, "journal-a")
        copy.apply(history.change())
        head = head_of(copy, "a")
        assert head is not None
        assert head.segment_size == 7
    assert (tmp_path / "data" / "store" / "journal" / "journal-a" / "0.db").exists()


def test_cassandra_travels_with_its_settings() -> None:
    cassandra = CassandraSettings(contact_points=("node-1",), keyspace="journal")
    settings = Settings(store=StoreSettings(engine="cassandra"), cassandra=cassandra)
    address = store_address_of(settings, Path("data"))
    assert pickle.loads(pickle.dumps(address)) == address == StoreAddress(cassandra=cassandra)


def test_cassandra_without_a_node_is_refused() -> None:
    with pytest.raises(BadConfig, match="contact_points"):
        store_address_of(Settings(store=StoreSettings(engine="cassandra")), Path("data"))


@pytest.mark.parametrize("address", [{}, {"folder": Path("a"), "cassandra": CassandraSettings()}])
def test_a_store_is_one_of_both(address: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="one of them"):
        StoreAddress(**address)  # type: ignore[arg-type]


def test_an_address_imports_no_library_of_an_engine() -> None:
    program = "import sys, headwater.journal.store_address; sys.exit(any(name in sys.modules for name in ('apsw', 'cassandra', 'pyspark')))"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
