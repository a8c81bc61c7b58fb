from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.documents.ground import documents_in, draft

from headwater.core.errors import KeyReused
from headwater.documents.change import Idempotency
from headwater.documents.idempotency import KEPT, WriteKeys, check_digest
from headwater.documents.open_documents import TOPIC
from headwater.documents.write import BatchDraft
from headwater.testing.clock import ManualClock

pytestmark = pytest.mark.anyio


async def test_a_key_is_found_for_a_day(tmp_path: Path) -> None:
    clock = ManualClock()
    async with documents_in(tmp_path, clock=clock) as documents:
        asked = draft("put", "a", 1, key="k")
        first = await documents.write(asked)
        digest = (documents.log.read(TOPIC, first.partition, 0)[0].value or b"").split(b'"digest":"')[1][:32].decode()
        keys = WriteKeys(documents.log, TOPIC, first.partition, now=clock.now_ms)
        found = keys.answered("a", "k", digest, 1)
        assert found is not None
        assert found.offset == first.offset
        assert keys.answered("a", "other", digest, 1) is None
        assert keys.answered("b", "k", digest, 1) is None
        with pytest.raises(KeyReused):
            keys.answered("a", "k", "other", 1)
        clock.advance(KEPT / 1000 + 1)
        assert keys.answered("a", "k", digest, 1) is None
        keys.forget()
        assert keys.answered("a", "k", digest, 1) is None
        again = await documents.write(asked)
        assert (again.revision, again.replayed) == (2, False)
        repeated = await documents.write(asked)
        assert (repeated.revision, repeated.replayed) == (2, True)


async def test_a_batch_is_answered_again_as_a_whole(tmp_path: Path) -> None:
    async with documents_in(tmp_path) as documents:
        batch = BatchDraft(uri="c~", drafts=(draft("put", "c~/1", {}), draft("post", "c~", {})), key="k")
        first = await documents.write_batch(batch)
        second = await documents.write_batch(batch)
        assert [one.path for one in second] == [one.path for one in first]
        assert all(one.replayed for one in second)
        with pytest.raises(KeyReused):
            await documents.write(draft("put", "c~/1", {}, key="k"))


def test_digests_are_compared() -> None:
    check_digest(Idempotency("k", "d", 200), "a", "k", "d")
    for first in (None, Idempotency("k", "e", 200)):
        with pytest.raises(KeyReused):
            check_digest(first, "a", "k", "d")
