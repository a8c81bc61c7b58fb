"""Looks at the partitions of documents at every server that owns some of them."""

from __future__ import annotations

import asyncio

import msgspec

from headwater.client.backend import Backend
from headwater.core.errors import HeadwaterError
from headwater.documents.care_answers import DocumentPartitionStatus, DocumentsStatus
from headwater.documents.follow_operations import STATUS
from headwater.documents.follow_requests import ListDocumentPartitions

_SIGHT = 5.0  # seconds that an owner may take to answer: one that hangs must not hide the others


async def status_everywhere(backend: Backend) -> DocumentsStatus:
    """The partitions as `backend` sees them; those that other processes own as these see them, and `Unknown` where they cannot be asked.
    Errors: those of `STATUS`, of `backend` alone."""
    status = await backend.ask(STATUS, ListDocumentPartitions())
    addresses = sorted({partition.address for partition in status.partitions if _is_elsewhere(partition)})
    answers = dict(zip(addresses, await asyncio.gather(*(_asked(backend, address) for address in addresses)), strict=True))
    return msgspec.structs.replace(
        status,
        partitions=[
            _seen(partition, answers[partition.address]) if _is_elsewhere(partition) else partition for partition in status.partitions
        ],
    )


def _is_elsewhere(partition: DocumentPartitionStatus) -> bool:
    return partition.state == "Passive" and bool(partition.owner)


async def _asked(backend: Backend, address: str) -> DocumentsStatus | str:
    """What the process at an address sees, or why it cannot be asked."""
    if not address:
        return "Its owner serves at no address."
    try:
        async with asyncio.timeout(_SIGHT):
            return await backend.at(address).ask(STATUS, ListDocumentPartitions())
    except HeadwaterError as error:
        return error.message
    except TimeoutError:
        return f"{address} has not answered for {_SIGHT:g} s."


def _seen(partition: DocumentPartitionStatus, answer: DocumentsStatus | str) -> DocumentPartitionStatus:
    if isinstance(answer, str):
        return msgspec.structs.replace(partition, state="Unknown", error=partition.error or answer)
    return next((remote for remote in answer.partitions if remote.partition == partition.partition), partition)
