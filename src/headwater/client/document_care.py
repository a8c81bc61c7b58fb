"""Performs the operations on documents as a whole: status, trails, verify and rebuild."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext

from headwater.client.document_changes import shown_transaction
from headwater.cluster import PartitionOwner
from headwater.core.errors import NotOwner, Unavailable, UnknownPartition
from headwater.documents import care_answers, follow_requests
from headwater.documents.open_documents import TOPIC, OpenDocuments
from headwater.documents.partition_status import PartitionStanding
from headwater.documents.path import logical_partition
from headwater.documents.store import DocumentStore
from headwater.documents.transactions import transactions_of
from headwater.documents.verify import verify_documents
from headwater.log.record import Topic
from headwater.wire.progress import report


class DocumentCare:
    """Looks after the documents that `opened` gives. `store_engine`: sqlite or cassandra. `owner`: says who owns a partition. Blocking."""

    def __init__(
        self, opened: Callable[[], Awaitable[OpenDocuments]], store_engine: str, owner: Callable[[int], PartitionOwner | None]
    ) -> None:
        self._opened, self._store_engine, self._owner = opened, store_engine, owner

    async def status(self, request: follow_requests.ListDocumentPartitions) -> care_answers.DocumentsStatus:
        documents = await self._opened()
        count = await asyncio.to_thread(lambda: documents.partitions)
        standings = await asyncio.gather(*(_standing(documents, number) for number in range(count)))
        owners = await asyncio.to_thread(lambda: [self._owner(standing.partition) for standing in standings])
        shown = [
            care_answers.DocumentPartitionStatus(
                partition=standing.partition,
                state=standing.state,
                end=standing.end,
                applied=standing.applied,
                lag=max(0, standing.end - standing.applied),
                waiting=standing.queued + standing.stashed,
                owner="" if owner is None else str(owner),
                address="" if owner is None else owner.address,
                error=standing.error,
            )
            for standing, owner in zip(standings, owners, strict=True)
        ]
        return care_answers.DocumentsStatus(topic=TOPIC, created=documents.topic is not None, store=self._store_engine, partitions=shown)

    async def trail(self, request: follow_requests.DocumentTrailRequest) -> care_answers.DocumentTrail:
        documents, path = await self._opened(), request.resource

        def look() -> care_answers.DocumentTrail:
            if documents.topic is None:
                return care_answers.DocumentTrail(path=path.uri, logical_partition=logical_partition(path.uri))
            number = documents.partition_of(path.uri)
            with documents.view(path.uri) as view:
                head = view.head(path.uri)
            return care_answers.DocumentTrail(
                path=path.uri,
                logical_partition=logical_partition(path.uri),
                partition=number,
                revision=0 if head is None else head.revision,
                generation=0 if head is None else head.generation,
                deleted=head is not None and head.deleted,
                applied=documents.applied(number),
                end=documents.end(number),
                transactions=[shown_transaction(transaction) for transaction in transactions_of(documents, path.uri, limit=request.limit)],
            )

        return await asyncio.to_thread(look)

    async def verify(self, request: follow_requests.VerifyDocuments) -> care_answers.VerifiedDocuments:
        """Errors: `Differs` with the first difference; `LogGap`."""
        documents = await self._opened()
        topic = documents.topic
        if topic is None:
            return care_answers.VerifiedDocuments(partitions=0, records=0, documents=0, rows=0, index_rows=0)
        stopped = threading.Event()
        try:
            verifications = await asyncio.to_thread(
                verify_documents, documents.log, documents.stores, topic, bases=self._bases(documents, topic), stopped=stopped.is_set
            )
        finally:
            stopped.set()  # a caller that gives up ends the thread, too
        for verification in verifications:
            verification.check()
        return care_answers.VerifiedDocuments(
            partitions=len(verifications),
            records=sum(partition.applied for partition in verifications),
            documents=sum(partition.documents for partition in verifications),
            rows=sum(partition.rows for partition in verifications),
            index_rows=sum(partition.index_rows for partition in verifications),
        )

    @staticmethod
    def _bases(documents: OpenDocuments, topic: Topic) -> Callable[[int], AbstractContextManager[DocumentStore | None]]:
        bases = documents.bases
        return lambda number: nullcontext() if bases is None else bases.opened(topic, number)

    async def rebuild(self, request: follow_requests.RebuildDocuments) -> care_answers.RebuiltDocuments:
        """What other processes own is named, and left to them. Errors: `UnknownPartition`, `LogGap`."""
        documents = await self._opened()
        chosen = sorted(set(request.partitions)) or range(documents.partitions)
        for number in chosen:
            if not 0 <= number < documents.partitions:
                raise UnknownPartition(
                    f"Documents have no partition {number}.", hint=f"They have {documents.partitions}: see `headwater doc status`."
                )
        ends = {number: await asyncio.to_thread(documents.end, number) for number in chosen}
        elsewhere: dict[int, NotOwner] = {}
        if not request.dry_run:
            for done, number in enumerate(chosen, 1):
                try:
                    await documents.rebuild(number)
                except NotOwner as error:
                    elsewhere[number] = error
                report(sum(list(ends.values())[:done]), sum(ends.values()))
        return care_answers.RebuiltDocuments(
            partitions=len(ends) - len(elsewhere),
            records=sum(end for number, end in ends.items() if number not in elsewhere),
            dry_run=request.dry_run,
            elsewhere=[
                care_answers.PartitionElsewhere(partition=number, address=error.address, says=error.message)
                for number, error in elsewhere.items()
            ],
        )


async def _standing(documents: OpenDocuments, number: int) -> PartitionStanding:
    try:
        return await documents.standing(number)
    except Unavailable as error:  # another worker has it, and cannot be asked: what everybody sees
        end, applied = await asyncio.to_thread(lambda: (documents.end(number), documents.applied(number)))
        return PartitionStanding(partition=number, state="Unknown", end=end, applied=applied, error=error.message)
