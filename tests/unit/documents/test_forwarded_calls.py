from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.documents.ground import body_of, documents_in, draft, put

from headwater.core.errors import Closed
from headwater.documents.forwarded import (
    ForwardedBatch,
    ForwardedLook,
    ForwardedRebuild,
    ForwardedWrite,
    RebuiltThere,
    RefusedCall,
    StandingThere,
    WrittenThere,
    decode_answer,
    encode,
)
from headwater.documents.forwarded_calls import ForwardedCalls
from headwater.documents.open_documents import OpenDocuments
from headwater.documents.write import BatchDraft

pytestmark = pytest.mark.anyio


async def test_each_call_is_done_here(tmp_path: Path) -> None:
    async with documents_in(tmp_path) as documents:

        async def opened() -> OpenDocuments:
            return documents

        async def asked(call: object) -> object:
            return decode_answer(await ForwardedCalls(opened).answer(encode(call)))

        written = await asked(ForwardedWrite(draft("put", "a", {"b": 1})))
        assert isinstance(written, WrittenThere)
        assert (written.documents[0].revision, written.documents[0].created) == (1, True)
        assert await body_of(documents, "a") == {"b": 1}
        batch = BatchDraft(uri="c~", drafts=(draft("put", "c~/1", {}), draft("put", "c~/2", {})))
        both = await asked(ForwardedBatch(batch))
        assert isinstance(both, WrittenThere)
        assert [one.path.text for one in both.documents] == ["c~/1", "c~/2"]
        number = written.documents[0].partition
        assert await asked(ForwardedRebuild(number)) == RebuiltThere()
        looked = await asked(ForwardedLook(number))
        assert isinstance(looked, StandingThere)
        assert (looked.standing.state, looked.standing.applied) == ("Active", looked.standing.end)


async def test_an_error_of_the_call_is_its_answer(tmp_path: Path) -> None:
    async with documents_in(tmp_path) as documents:

        async def opened() -> OpenDocuments:
            return documents

        await put(documents, "a", 1)
        refused = decode_answer(await ForwardedCalls(opened).answer(encode(ForwardedWrite(draft("put", "a", 2, match=(7,))))))
        assert isinstance(refused, RefusedCall)
        assert (refused.problem.status, refused.problem.code) == (412, "not-matched")
        unfit = decode_answer(await ForwardedCalls(opened).answer(encode(ForwardedWrite(draft("post", "a", 2)))))
        assert isinstance(unfit, RefusedCall)
        assert unfit.problem.status == 405

    async def closed() -> OpenDocuments:
        raise Closed("It is closed.", hint="Open it.")

    answer = decode_answer(await ForwardedCalls(closed).answer(encode(ForwardedLook(0))))
    assert isinstance(answer, RefusedCall)
    assert answer.problem.code == "closed"
