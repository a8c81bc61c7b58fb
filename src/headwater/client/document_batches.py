"""Performs batches of writes to documents: each line by itself, or all together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from headwater.core.document_errors import BadPath
from headwater.core.errors import BadInput, HeadwaterError, NotOwner
from headwater.core.ids import Ids
from headwater.documents.answers import show_written
from headwater.documents.open_documents import OpenDocuments
from headwater.documents.path import parse_path
from headwater.documents.requests import BatchLine, WriteBatch
from headwater.documents.write import BatchDraft, WrittenDocument
from headwater.wire import json
from headwater.wire.problems import encoded, problem_of

_LARGE = 60_000  # bytes of a body
_AT_ONCE = 256  # writes of one batch that wait at once
_Outcome = WrittenDocument | HeadwaterError


class DocumentBatches:
    """Writes to the documents that `opened` gives. Belongs to one event loop."""

    def __init__(self, opened: Callable[[], Awaitable[OpenDocuments]], *, ids: Ids) -> None:
        self._opened, self._ids = opened, ids

    async def batch(self, request: WriteBatch) -> bytes:
        """Each line is done by itself, those of one document in their order; or all together."""
        if request.atomic:
            outcomes: Sequence[_Outcome] = await self._atomic(request)
        else:
            outcomes = await self._by_line(await self._opened(), request.lines)
        return b"".join(map(self._shown, outcomes))

    async def _by_line(self, documents: OpenDocuments, lines: Sequence[BatchLine]) -> Sequence[_Outcome]:
        outcomes: list[_Outcome] = []
        begun: list[asyncio.Future[_Outcome]] = []
        refused: dict[int, NotOwner] = {}  # partitions that another process owns: nothing of them is tried again
        places: list[int | None] = []

        async def end() -> None:
            ended = await asyncio.gather(*begun)
            for number, outcome in zip(places[len(outcomes) :], ended, strict=False):  # the line behind them has a place, too
                if isinstance(outcome, NotOwner) and number is not None:
                    refused.setdefault(number, outcome)
            outcomes.extend(ended)
            begun.clear()

        for line in lines:
            number = _place(documents, line)
            places.append(number)
            # A write of a partition that this process has not taken, or of a large body, waits for a thread before it is queued: what
            # follows it must not overtake it.
            alone = number not in refused and (len(line.content) >= _LARGE or not _is_taken(documents, number))
            if alone or len(begun) >= _AT_ONCE:
                await end()
            elsewhere = None if number is None else refused.get(number)
            begun.append(asyncio.ensure_future(_written(documents, line, elsewhere)))
            if alone:
                await end()
        await end()
        return _kept_in_order(lines, outcomes)

    async def _atomic(self, request: WriteBatch) -> Sequence[WrittenDocument]:
        drafts = tuple(line.draft() for line in request.lines)
        if not drafts:
            raise BadInput("The batch has no writes.", hint="Send a line for each.")
        other = next((draft.path for draft in drafts if draft.path.uri != drafts[0].path.uri), None)
        if other is not None:
            raise BadPath(
                f"An atomic batch writes to one document or collection, and this one to {drafts[0].path.uri} and {other.uri}.",
                hint="Send a batch for each, or leave atomic out.",
            )
        if any(draft.key for draft in drafts):
            raise BadInput(
                "The writes of an atomic batch have no idempotency keys of their own.",
                hint="Name the batch with the header Idempotency-Key.",
            )
        return await (await self._opened()).write_batch(BatchDraft(uri=drafts[0].path.uri, drafts=drafts, key=request.idempotency or ""))

    def _shown(self, outcome: _Outcome) -> bytes:
        if isinstance(outcome, HeadwaterError):
            return encoded(problem_of(outcome, self._ids())) + b"\n"
        return json.encode(show_written(outcome).value) + b"\n"


def _place(documents: OpenDocuments, line: BatchLine) -> int | None:
    """The partition of a line; None where its path is wrong, or nothing was ever written."""
    try:
        uri = parse_path(line.path).uri
    except BadPath:
        return None
    return documents.partition_of(uri) if documents.partitions else None


def _is_taken(documents: OpenDocuments, number: int | None) -> bool:
    if number is None:
        return bool(documents.partitions)  # a wrong path is refused at once
    return documents.other(number) is not None or documents.opened(number) is not None


async def _written(documents: OpenDocuments, line: BatchLine, elsewhere: NotOwner | None) -> _Outcome:
    try:
        draft = line.draft()
        return elsewhere or await documents.write(draft)
    except HeadwaterError as error:
        return error


def _kept_in_order(lines: Sequence[BatchLine], outcomes: Sequence[_Outcome]) -> list[_Outcome]:
    """The outcomes, of which none sends a line to its owner where a later one of the same document was done: it would overtake that."""
    done, kept = set[str](), list[_Outcome]()
    for line, outcome in zip(reversed(lines), reversed(outcomes), strict=True):
        if isinstance(outcome, WrittenDocument):
            done.add(outcome.path.uri)
        elif isinstance(outcome, NotOwner) and outcome.address and parse_path(line.path).uri in done:
            outcome = NotOwner(outcome.message, hint="Nothing was written, and a later line of the same document was: send it again.")
        kept.append(outcome)
    return kept[::-1]
