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
    found = await backend.ask(STATUS, ListDocumentPartitions())
    addresses = sorted({one.address for one in found.partitions if _is_elsewhere(one)})
    asked = dict(zip(addresses, await asyncio.gather(*(_asked(backend, address) for address in addresses)), strict=True))
    return msgspec.structs.replace(
        found, partitions=[_seen(one, asked[one.address]) if _is_elsewhere(one) else one for one in found.partitions]
    )


def _is_elsewhere(one: DocumentPartitionStatus) -> bool:
    return one.state == "Passive" and bool(one.owner)


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


def _seen(one: DocumentPartitionStatus, asked: DocumentsStatus | str) -> DocumentPartitionStatus:
    if isinstance(asked, str):
        return msgspec.structs.replace(one, state="Unknown", error=one.error or asked)
    return next((there for there in asked.partitions if there.partition == one.partition), one)
