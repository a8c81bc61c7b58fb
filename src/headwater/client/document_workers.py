"""The documents of a worker whose server has several: each partition is of one worker, which writes it; all of them read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.cluster.forward import ForwardClient, ForwardServer
from headwater.core.clock import Clock
from headwater.documents.forwarded_calls import ForwardedCalls
from headwater.documents.homes import PartitionHomes, RemoteHome
from headwater.documents.index.template import TEMPLATES
from headwater.documents.index_requests import CollectionRequest
from headwater.wire.operation import Operation
from headwater.wire.part import WorkerPlace

if TYPE_CHECKING:
    from headwater.client.documents_performer import DocumentsPerformer

_KAFKA = 0  # the worker that is in the consumer group for its whole server


def shares(performer: DocumentsPerformer, place: WorkerPlace) -> None:
    """Share the partitions with the other workers."""
    performer.workers = DocumentWorkers(performer, place)


async def home(performer: DocumentsPerformer, operation: Operation[Any, Any], variables: Mapping[str, str]) -> int | None:
    """The worker that performs an operation on indexes, a view, a schema or templates. Errors: `BadPath`; those of the log."""
    documents = await performer.opened()
    if documents.homes is None:
        return None
    uri = CollectionRequest(path=variables["path"]).collection() if "path" in variables else TEMPLATES
    if documents.topic is None:
        if not operation.changes:
            return None
        await documents.create()
    return documents.homes.home(documents.partition_of(uri))


class DocumentWorkers:
    """The other workers, and the socket at which they ask this one.

    On segment files, partition p is that of worker p modulo their number: a worker that takes the place of a dead one takes its partitions,
    and no others move. On Kafka the group gives a server its partitions, and its worker 0 is the member.
    """

    def __init__(self, performer: DocumentsPerformer, place: WorkerPlace) -> None:
        self._place = place
        self._server = ForwardServer(ForwardedCalls(performer.opened).answer, clock=performer.clock)
        self._homes: PartitionHomes | None = None

    def homes(self, engine: str, clock: Clock) -> PartitionHomes:
        """Which worker has which partition."""
        place = self._place
        homes = {slot: RemoteHome(ForwardClient(self._socket(slot), clock=clock)) for slot in range(place.size) if slot != place.slot}
        self._homes = PartitionHomes(homes, (lambda _: _KAFKA) if engine == "kafka" else lambda partition: partition % place.size)
        return self._homes

    async def start(self) -> None:
        """Listen for the others. Errors: as `ForwardServer.listen`."""
        await self._server.listen(self._socket(self._place.slot))

    async def aclose(self) -> None:
        """Ask nobody any more, and answer the others until they have ended, too."""
        if self._homes is not None:
            await self._homes.aclose()
        await self._server.aclose()

    def _socket(self, slot: int) -> Path:
        return self._place.folder / f"{slot}.documents.sock"
