"""Does what the other workers of a server ask of this one about documents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from headwater.core.errors import HeadwaterError
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
from headwater.documents.open_documents import OpenDocuments
from headwater.wire.problems import problem_of


async def answer_call(opened: Callable[[], Awaitable[OpenDocuments]], payload: bytes) -> bytes:
    """Do what another worker asks of the documents that `opened` gives."""
    try:
        return encode(await _done(await opened(), decode_call(payload)))
    except HeadwaterError as error:
        return encode(RefusedCall(problem_of(error, "")))


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
