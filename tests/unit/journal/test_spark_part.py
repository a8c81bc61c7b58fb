"""What a task of Spark's opens: events with their keys, or without."""

from __future__ import annotations

import base64
import pickle
from pathlib import Path

import pytest
from tests.unit.journal.cipher_ground import MASTER, CipherGround, append, erase, rows

from headwater.core.errors import BadConfig, Erased
from headwater.journal.key_address import KeyAddress
from headwater.journal.spark_part import EventOpener, PartitionPart
from headwater.journal.store_address import StoreAddress

pytestmark = pytest.mark.anyio


async def test_events_are_opened_in_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER", "first " + base64.b64encode(MASTER).decode())
    ground = CipherGround(tmp_path)
    one = ground.process()
    await append(one, "alice", "x")
    await append(one, "bob", "y")
    (alice,), (bob,) = rows(one, "alice", raw=True), rows(one, "bob", raw=True)
    await erase(one, "bob")

    def part(**given: str) -> PartitionPart:
        keys = KeyAddress(path=ground.key_file, **given)  # type: ignore[arg-type]
        made = PartitionPart(ground.topic.name, 0, ground.topic.generation, 2, StoreAddress(folder=tmp_path / "store"), keys)
        again: PartitionPart = pickle.loads(pickle.dumps(made))
        assert again == made
        return again

    with EventOpener(ground.log, part(key_variable="MASTER")) as opener:
        opened = opener.opened("alice", alice, lenient=False)
        assert opened is not None
        assert opened.payload is not None
        assert opened.payload.value() == "x"
        with pytest.raises(Erased):
            opener.opened("bob", bob, lenient=False)
        assert opener.opened("bob", bob, lenient=True) is None
    with EventOpener(ground.log, part()) as opener:
        with pytest.raises(BadConfig):
            opener.opened("alice", alice, lenient=False)
        assert opener.opened("alice", alice, lenient=True) is None
    await ground.aclose()
