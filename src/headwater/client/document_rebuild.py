"""Makes the store of documents anew at every server that owns some of the partitions."""

from __future__ import annotations

from itertools import groupby

import msgspec

from headwater.client.backend import Backend
from headwater.core.errors import NotOwner, Unreachable
from headwater.documents.care_answers import PartitionElsewhere, RebuiltDocuments
from headwater.documents.follow_operations import REBUILD
from headwater.documents.follow_requests import RebuildDocuments

_ROUNDS = 3  # in which partitions may change their owners


async def rebuilt_everywhere(backend: Backend, request: RebuildDocuments) -> RebuiltDocuments:
    """Ask `backend`, and then the owners of the partitions that it left; what all of them have done.

    Errors: those of `REBUILD`; `NotOwner` that names the partitions which no owner has done: the others are done.
    """
    rebuilt = await _asked(backend, request)
    for _ in range(_ROUNDS):
        if not rebuilt.elsewhere:
            return rebuilt
        left: list[PartitionElsewhere] = []
        for address, group in groupby(sorted(rebuilt.elsewhere, key=_address), _address):
            partitions = list(group)
            part = msgspec.structs.replace(request, partitions=tuple(partition.partition for partition in partitions))
            try:
                # A partition without an address is being given to another process, or its owner has ended meanwhile.
                more = await _asked(backend.at(address) if address else backend, part)
            except Unreachable as error:
                left += [
                    msgspec.structs.replace(partition, address="", says=f"{partition.says} {error.message}") for partition in partitions
                ]
                continue
            left += more.elsewhere
            rebuilt = _together(rebuilt, more)
        rebuilt = msgspec.structs.replace(rebuilt, elsewhere=left)
    if not rebuilt.elsewhere:
        return rebuilt
    names = ", ".join(str(number) for number in sorted(partition.partition for partition in rebuilt.elsewhere))
    raise NotOwner(
        f"The store was made anew but for the partitions {names}: {rebuilt.elsewhere[0].says}",
        hint="Stop the processes that own them, or wait until their owners can be asked, and rebuild those partitions again.",
    )


async def _asked(backend: Backend, request: RebuildDocuments) -> RebuiltDocuments:
    return await (await backend.start(REBUILD, request)).result()


def _address(partition: PartitionElsewhere) -> str:
    return partition.address if partition.address.startswith(("http://", "https://")) else ""


def _together(rebuilt: RebuiltDocuments, more: RebuiltDocuments) -> RebuiltDocuments:
    return msgspec.structs.replace(rebuilt, partitions=rebuilt.partitions + more.partitions, records=rebuilt.records + more.records)
