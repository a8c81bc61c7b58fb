"""Does what the other workers of a server ask of this one about documents."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

from headwater.core.errors import Closed, HeadwaterError
from headwater.documents.draft_body import read_draft
from headwater.documents.forwarded import (
    Forwarded,
    ForwardedAnswer,
    ForwardedBatch,
    ForwardedLook,
    ForwardedRebuild,
    ForwardedWrite,
    RebuiltThere,
    RefusedCall,
    StandingThere,
    WrittenThere,
    decode_call,
    encode,
)
from headwater.documents.open_documents import LARGE, OpenDocuments
from headwater.documents.write import Draft, WrittenDocument
from headwater.documents.write_notices import tell_of_beginning
from headwater.wire.problems import problem_of


class ForwardedCalls:
    """Does what the other workers ask of the documents that `opened` gives. Belongs to one event loop."""

    def __init__(self, opened: Callable[[], Awaitable[OpenDocuments]]) -> None:
        self._opened = opened
        self._documents: OpenDocuments | None = None

    def answer(self, payload: bytes) -> asyncio.Future[bytes]:
        """The answer, an error included."""
        try:
            call = decode_call(payload)
            written = self._begun(call.draft) if type(call) is ForwardedWrite else None
        except HeadwaterError as error:
            return _answered(_refusal(error))
        if written is None:
            return asyncio.ensure_future(self._whole(call))
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        written.add_done_callback(partial(self._tell, call, answer, time.perf_counter()))
        return answer

    def _begun(self, draft: Draft) -> asyncio.Future[WrittenDocument] | None:
        """A small write, queued without a task of its own, where its partition is taken: one worker does this for all others."""
        documents = self._documents
        if documents is None or draft.ttl is not None or draft.path.is_collection or len(draft.body) >= LARGE:
            return None
        partition = documents.opened(documents.partition_of(draft.path.uri))
        if partition is None:
            return None
        return partition.call(read_draft(draft, limit=int(documents.settings.max_body)))

    def _tell(self, call: Forwarded, answer: asyncio.Future[bytes], began: float, written: asyncio.Future[WrittenDocument]) -> None:
        assert self._documents is not None
        metrics, error = self._documents.metrics, written.exception()
        if error is None:
            metrics.accepted(time.perf_counter() - began)
            tell_of_beginning(self._documents, written.result())
            answer.set_result(encode(WrittenThere((written.result(),))))
        elif isinstance(error, Closed):  # it was released between: nothing was done
            again = asyncio.ensure_future(self._whole(call))
            again.add_done_callback(lambda done: answer.set_result(done.result()))
        elif isinstance(error, HeadwaterError):
            metrics.refused(error)
            answer.set_result(_refusal(error))
        else:
            answer.set_exception(error)

    async def _whole(self, call: Forwarded) -> bytes:
        try:
            self._documents = await self._opened()
            return encode(await _done(self._documents, call))
        except HeadwaterError as error:
            return _refusal(error)


def _refusal(error: HeadwaterError) -> bytes:
    return encode(RefusedCall(problem_of(error, "")))


def _answered(payload: bytes) -> asyncio.Future[bytes]:
    answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    answer.set_result(payload)
    return answer


async def _done(documents: OpenDocuments, call: Forwarded) -> ForwardedAnswer:
    match call:
        case ForwardedWrite(draft):
            return WrittenThere((await documents.write(draft),))
        case ForwardedBatch(batch):
            return WrittenThere(await documents.write_batch(batch))
        case ForwardedRebuild(partition):
            await documents.rebuild(partition)
            return RebuiltThere()
        case ForwardedLook(partition):
            return StandingThere(await documents.standing(partition))
