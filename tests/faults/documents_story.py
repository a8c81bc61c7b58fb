"""Writes to documents whose outcomes are told, and what must hold of them in whoever opens the directory next."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from headwater.cluster.local import LocalOwnership
from headwater.core.clock import SystemClock
from headwater.core.errors import HeadwaterError, OutcomeUnknown
from headwater.core.files import Files
from headwater.documents.change import decode_record
from headwater.documents.open_documents import TOPIC, OpenDocuments
from headwater.documents.path import ResourcePath, parse_path
from headwater.documents.settings import DocumentSettings
from headwater.documents.sqlite import SqliteDocumentStores
from headwater.documents.verify import verify_documents
from headwater.documents.write import BatchDraft, Draft
from headwater.log.embedded.log import EmbeddedLog

SETTINGS = DocumentSettings(partitions=1)
URIS = ("a", "b/c", "shop~")


class Told(NamedTuple):
    """What a caller was told of one write. Every write has a number of its own in its body."""

    uri: str
    number: int
    outcome: str
    """accepted, refused or unknown."""


@asynccontextmanager
async def documents_at(folder: Path, files: Files | None = None) -> AsyncIterator[OpenDocuments]:
    with (
        EmbeddedLog(folder, files=files) as log,
        LocalOwnership(log, folder / "owners", files=files) as owners,
        SqliteDocumentStores(folder / "documents") as stores,
    ):
        documents = OpenDocuments(log, stores, lambda: owners, settings=SETTINGS, clock=SystemClock(), quick=True)
        try:
            yield documents
        finally:
            await documents.aclose()


def _draft(number: int) -> Draft | BatchDraft:
    uri, body = URIS[number % 3], msgspec.json.encode({"number": number})
    if uri == "shop~":
        posted = Draft(path=parse_path(uri), verb="post", body=body)
        put = Draft(path=ResourcePath(uri, str(number % 5)), verb="put", body=body)
        return BatchDraft(uri=uri, drafts=(posted, put)) if number % 2 else posted
    return Draft(path=parse_path(uri), verb="put", body=body)


async def write_one(documents: OpenDocuments, number: int, tell: Callable[[Told], None]) -> None:
    """Make the write of a number, and tell what came of it."""
    asked = _draft(number)
    uri = asked.uri if isinstance(asked, BatchDraft) else asked.path.uri
    try:
        if isinstance(asked, BatchDraft):
            await documents.write_batch(asked)
        else:
            await documents.write(asked)
    except OutcomeUnknown:
        tell(Told(uri, number, "unknown"))
    except HeadwaterError:
        tell(Told(uri, number, "refused"))
    else:
        tell(Told(uri, number, "accepted"))


async def live(folder: Path, files: Files | None, tell: Callable[[Told], None], *, writes: int = 24, first: int = 0) -> None:
    """Open the documents, write in groups of four, and close: whatever fails."""
    try:
        async with documents_at(folder, files) as documents:
            for group in range(first, first + writes, 4):
                await asyncio.gather(*(write_one(documents, number, tell) for number in range(group, group + 4)))
    except HeadwaterError:
        return


async def check(folder: Path, told: list[Told], *, complete: bool = True) -> None:
    """Nothing accepted is lost, nothing refused is there, no revision is missing, and the store is what the log says.

    `complete`: everything that was written was told; else writes of which nobody heard may be there.
    """
    async with documents_at(folder) as documents:
        before = written_numbers(documents)
        outcomes = {one.number: one.outcome for one in told}
        for one in told:
            if one.outcome == "accepted":
                assert one.number in before[one.uri], one
            if one.outcome == "refused":
                assert one.number not in before[one.uri], one
        if complete:
            assert all(number in outcomes for numbers in before.values() for number in numbers)
        later: list[Told] = []
        for number in (9000, 9001, 9002):
            await write_one(documents, number, later.append)
        assert [one.outcome for one in later] == ["accepted"] * 3
        written_numbers(documents)
        assert documents.topic is not None
        for found in verify_documents(documents.log, documents.stores, documents.topic):
            found.check()


def written_numbers(documents: OpenDocuments) -> dict[str, list[int]]:
    """The numbers in the log by uri; revisions have no gap, and no write is there twice."""
    numbers: dict[str, list[int]] = {uri: [] for uri in URIS}
    revisions: dict[str, int] = {}
    if documents.topic is None:
        return numbers
    for record in documents.log.read(TOPIC, 0, 0, limit=100_000) if documents.end(0) else ():
        found = decode_record(record.value, "")
        for change in found.changes:
            assert change.revision == revisions.get(found.uri, 0) + 1
            revisions[found.uri] = change.revision
        number = msgspec.json.decode(found.changes[0].event)["number"]
        assert number not in numbers[found.uri] or number >= 9000
        numbers[found.uri].append(number)
    return numbers
