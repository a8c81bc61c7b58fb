"""Documents in a directory, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from headwater.cluster.local import LocalOwned, LocalOwnership
from headwater.core.clock import Clock
from headwater.core.errors import Unavailable
from headwater.core.files import Files
from headwater.documents.base import DocumentBases
from headwater.documents.open_documents import OpenDocuments
from headwater.documents.path import parse_path
from headwater.documents.settings import DocumentSettings
from headwater.documents.sqlite import SqliteDocumentStore, SqliteDocumentStores
from headwater.documents.store import AppendedRecord, DocumentStores
from headwater.documents.write import ANY_STATE, Draft, PatchKind, Precondition, Verb, WrittenDocument
from headwater.log import Writer
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.testing.clock import ManualClock


@asynccontextmanager
async def documents_in(
    folder: Path,
    *,
    clock: Clock | None = None,
    settings: DocumentSettings | None = None,
    files: Files | None = None,
    stores: DocumentStores | None = None,
    address: str = "",
    outcomes: list[object] | None = None,
) -> AsyncIterator[OpenDocuments]:
    """Open documents, closed at the end. `outcomes`: of the next appends, see `ScriptedOwnership`."""
    clock = clock or ManualClock()
    with (
        EmbeddedLog(folder, files=files) as log,
        ScriptedOwnership(log, folder / "owners", address=address, files=files) as owners,
        SqliteDocumentStores(folder / "documents") as own,
    ):
        numbers = count(1)
        owners.outcomes = [] if outcomes is None else outcomes
        opened = OpenDocuments(
            log,
            stores or own,
            lambda: owners,
            settings=settings or DocumentSettings(),
            clock=clock,
            ids=lambda: f"{next(numbers):032x}",
            bases=DocumentBases(folder / "base"),
            quick=True,
        )
        try:
            yield opened
        finally:
            await opened.aclose()


def draft(
    verb: Verb,
    path: str,
    body: Any = None,
    *,
    patch: PatchKind = "merge",
    match: tuple[int, ...] | None = None,
    none_match: tuple[int, ...] | None = None,
    key: str = "",
    ttl: int | None = None,
) -> Draft:
    """A draft of a path as text and a body as a value."""
    given = match is not None or none_match is not None
    return Draft(
        path=parse_path(path),
        verb=verb,
        body=b"" if verb == "delete" else msgspec.json.encode(body),
        patch=patch,
        condition=Precondition(match, none_match) if given else ANY_STATE,
        key=key,
        ttl=ttl,
    )


async def put(documents: OpenDocuments, path: str, body: Any = None, **rest: Any) -> WrittenDocument:
    """PUT."""
    return await documents.write(draft("put", path, body, **rest))


async def body_of(documents: OpenDocuments, path: str) -> Any:
    """The body of a document or item; None where it is absent."""
    _, row = await documents.read(parse_path(path))
    return None if row is None else msgspec.json.decode(row.body)


class FlakyStores(SqliteDocumentStores):
    """Stores that take no records while `failing` is set, and that take them and say that they did not while `failing_after` is.
    `waiting`: called before they fail."""

    failing = failing_after = False
    waiting: Callable[[], object] = staticmethod(lambda: None)

    def partition(self, number: int, generation: str) -> SqliteDocumentStore:
        store = super().partition(number, generation)
        apply = store.apply

        def flaky(records: Sequence[AppendedRecord], applied: int, *, since: int | None = None, patience: float | None = None) -> None:
            if self.failing:
                self.waiting()
                raise Unavailable("The store does not answer.", hint="Ask again.")
            apply(records, applied, since=since, patience=patience)
            if self.failing_after:
                raise Unavailable("The store did not answer in time.", hint="Ask again.")

        store.apply = flaky  # type: ignore[method-assign]
        return store


class ScriptedOwnership(LocalOwnership):
    """Ownership whose writers fail as told: `outcomes` holds, for each append, None, an error before it, or (error,) after it."""

    outcomes: list[Any]

    def own(self, topic: str, partition: int, *, take_over: bool = False, part: str = "") -> LocalOwned:
        owned = super().own(topic, partition, take_over=take_over, part=part)
        self._script(owned)
        return owned

    def renew(self, owned: LocalOwned) -> Writer:
        super().renew(owned)
        self._script(owned)
        return owned.writer

    def _script(self, owned: LocalOwned) -> None:
        append = owned.writer.append

        def scripted(records: Sequence[Record], **rest: Any) -> Sequence[int]:
            outcome = self.outcomes.pop(0) if self.outcomes else None
            if isinstance(outcome, Exception):
                raise outcome
            offsets = append(records, **rest)
            if isinstance(outcome, tuple):
                raise outcome[0]
            return offsets

        owned.writer.append = scripted  # type: ignore[method-assign]
