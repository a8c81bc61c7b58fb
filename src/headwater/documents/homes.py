"""The workers of one server share the partitions of documents: each partition has one worker that owns it, and the others ask there."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headwater.cluster.forward import ForwardClient
from headwater.documents.forwarded import (
    Forwarded,
    ForwardedAnswer,
    ForwardedBatch,
    ForwardedLook,
    ForwardedRebuild,
    ForwardedWrite,
    RefusedCall,
    StandingThere,
    WrittenThere,
    decode_answer,
    encode,
)
from headwater.documents.partition_status import PartitionStanding
from headwater.documents.write import BatchDraft, Draft, WrittenDocument
from headwater.wire.problems import error_in

_WRITE = 45.0  # seconds: longer than a server needs to replace a worker that hangs, shorter than clients wait
_SIGHT = 5.0  # seconds that a look at a partition may take


class RemoteHome:
    """Another worker, which owns some of the partitions. Errors of all calls: those of the same call there; those of `ForwardClient`."""

    def __init__(self, client: ForwardClient) -> None:
        self._client = client

    async def write(self, draft: Draft) -> WrittenDocument:
        """As `OpenDocuments.write`. One with an idempotency key is sent again where its outcome is not known."""
        answer = await self._asked(ForwardedWrite(draft), again=bool(draft.key), patience=_WRITE)
        assert isinstance(answer, WrittenThere)
        return answer.documents[0]

    async def write_batch(self, batch: BatchDraft) -> tuple[WrittenDocument, ...]:
        """As `OpenDocuments.write_batch`, and as `write`."""
        answer = await self._asked(ForwardedBatch(batch), again=bool(batch.key), patience=_WRITE)
        assert isinstance(answer, WrittenThere)
        return answer.documents

    async def rebuild(self, partition: int) -> None:
        """As `OpenDocuments.rebuild`."""
        await self._asked(ForwardedRebuild(partition), again=True, patience=None)

    async def standing(self, partition: int) -> PartitionStanding:
        """How the partition is there."""
        answer = await self._asked(ForwardedLook(partition), again=True, patience=_SIGHT)
        assert isinstance(answer, StandingThere)
        return answer.standing

    async def _asked(self, call: Forwarded, *, again: bool, patience: float | None) -> ForwardedAnswer:
        answer: ForwardedAnswer = decode_answer(await self._client.call(encode(call), patience=patience, again=again))
        if isinstance(answer, RefusedCall):
            raise error_in(answer.problem)
        return answer

    async def aclose(self) -> None:
        await self._client.aclose()


class PartitionHomes:
    """Which worker owns a partition. `others`: the other workers, by number; `home`: the worker of a partition."""

    def __init__(self, others: Mapping[int, RemoteHome], home: Callable[[int], int]) -> None:
        self._others, self.home = others, home

    def other(self, partition: int) -> RemoteHome | None:
        """The worker that owns a partition; None where that is this one."""
        return self._others.get(self.home(partition))

    async def aclose(self) -> None:
        for other in self._others.values():
            await other.aclose()
