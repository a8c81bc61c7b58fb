"""Encrypted journals as a source: clear with the key, told without it, and never as envelopes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.adaptors.journal.test_source import copied, followed
from tests.unit.journal.cipher_ground import PART, TOPIC, CipherGround, append, erase, rows

from headwater.adaptors.journal.opener import SourceOpener
from headwater.adaptors.journal.source import JournalSource
from headwater.core.errors import BadConfig, Undecryptable
from headwater.journal.master_keys import MasterKeys, load_master_keys, new_master_key
from headwater.log.record import Record
from headwater.pipeline.adaptors import journal
from headwater.pipeline.namespaces import Namespaces

pytestmark = pytest.mark.anyio
ALL = Namespaces()
KEY_FILE = "HEADWATER_JOURNAL__KEY_FILE"


class SecretBank(CipherGround):
    """Its master key is in a file."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "master.keys"
        self.file.write_text(new_master_key("first") + "\n")
        self.read: MasterKeys = load_master_keys(self.file, "")
        super().__init__(folder, on=False)
        self.masters = self.read
        self.process().cipher.turn_on()

    def source(self, **options: Any) -> JournalSource:
        return JournalSource(journal("bank", address=str(self.folder / "data"), **options))


@pytest.fixture
async def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SecretBank]:
    made = SecretBank(tmp_path)
    monkeypatch.setenv(KEY_FILE, str(made.file))
    yield made
    await made.aclose()


async def test_a_source_gives_clear_events_and_no_erased_ones(bank: SecretBank) -> None:
    one, reading = bank.process(), bank.source()
    await append(one, "alice", {"a": 1}, "text")
    await append(one, "bob", "gone")
    await erase(one, "bob")
    assert "1 partition" in reading.check(ALL)[0]
    assert [(found.data["id"], found.data["payload"]) for found in copied(reading)] == [("alice", {"a": 1}), ("alice", "text")]
    cursor = reading.plan(ALL, 1).cursor
    await append(one, "alice", "more")
    found, cursor = followed(reading, cursor)
    assert [message.data["payload"] for message in found] == ["more"]
    await erase(one, "alice")
    assert copied(bank.source()) == []


async def test_without_the_key_it_is_told(bank: SecretBank, monkeypatch: pytest.MonkeyPatch) -> None:
    reading = bank.source()
    cursor = reading.plan(ALL, 1).cursor
    await append(bank.process(), "alice", "a")
    monkeypatch.delenv(KEY_FILE)
    for call in (lambda: reading.check(ALL), lambda: copied(reading), lambda: followed(reading, cursor)):
        with pytest.raises(BadConfig, match="no master key is configured"):
            call()


async def test_what_no_key_opens_is_told_and_is_no_message(bank: SecretBank) -> None:
    await append(bank.process(), "alice", "a")
    (record,) = bank.log.read(TOPIC, 0, 0, limit=1)
    bank.log.append(TOPIC, 0, [Record(b"bob", record.value, record.headers)], part=PART)
    with pytest.raises(Undecryptable):
        copied(bank.source())


async def test_behind_a_server_it_is_told(bank: SecretBank) -> None:
    one = bank.process()
    await append(one, "alice", "a")
    remote: Any = SimpleNamespace(log=None, where="http://one:8080")
    with SourceOpener(journal("bank", address="http://one:8080"), remote, bank.topic) as opener:
        opener.check()
        (sealed,) = rows(one, "alice", raw=True)
        with pytest.raises(BadConfig, match="no key is here"):
            opener.opened("alice", sealed)
        (clear,) = rows(one, "alice")
        assert opener.opened("alice", clear) is clear
