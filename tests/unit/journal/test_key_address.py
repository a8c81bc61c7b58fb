"""Where keys are."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from headwater.core.errors import BadConfig
from headwater.core.settings import CassandraSettings, Settings, StoreSettings
from headwater.journal.key_address import KeyAddress, key_address_of, open_keys
from headwater.journal.master_keys import new_master_key
from headwater.journal.settings import JournalSettings


def test_the_key_store_lies_apart_from_log_and_store(tmp_path: Path) -> None:
    file = tmp_path / "master.keys"
    settings = Settings(sections={"journal": JournalSettings(key_file=file)})
    address = key_address_of(settings, tmp_path / "data")
    assert address == KeyAddress(path=tmp_path / "data" / "keys" / "journal.db", key_file=file)
    assert address.configured
    assert not key_address_of(Settings(), tmp_path).configured
    line = new_master_key("first")
    file.write_text(line)
    keys = open_keys(address)
    keys.create("journal-bank", ["a"])
    keys.close()
    assert (tmp_path / "data" / "keys" / "journal.db").exists()
    assert line.split()[1].encode() not in pickle.dumps(address)


def test_with_cassandra_the_keys_are_there() -> None:
    cassandra = CassandraSettings(contact_points=("node-1",))
    settings = Settings(
        store=StoreSettings(engine="cassandra"), cassandra=cassandra, sections={"journal": JournalSettings(key_variable="K")}
    )
    assert key_address_of(settings, Path("data")) == KeyAddress(cassandra=cassandra, key_variable="K")


def test_without_master_keys_nothing_is_opened(tmp_path: Path) -> None:
    with pytest.raises(BadConfig):
        open_keys(KeyAddress(path=tmp_path / "journal.db"))
