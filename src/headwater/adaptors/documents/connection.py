"""Connections to documents, through the doors of this process: those of one place share one, with its queues."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from headwater.adaptors.converting_writer import as_unreachable
from headwater.adaptors.documents.adaptor import DocumentsAdaptor
from headwater.adaptors.queue.connection import DOORS, SharedDoors
from headwater.core.document_errors import DocumentNotFound
from headwater.core.errors import Closed, Denied, Fenced, HeadwaterError, NotOwner, Unavailable
from headwater.core.ids import random_id
from headwater.documents.requests import BatchLine
from headwater.pipeline.clients import Closing


class DocumentsConnection(Closing):
    """The documents of one place. Used in one thread."""

    def __init__(self, adaptor: DocumentsAdaptor, *, doors: SharedDoors | None = None) -> None:
        """Errors: `Unreachable`, `NotFound`, `BadConfig`, `Denied`."""
        self._doors, self.where = doors or DOORS, str(adaptor.located())
        with self._blaming_the_place():
            self._shared = self._doors.take(adaptor)
        self._documents: Any = self._shared.door.documents

    def close(self) -> None:
        self._doors.give_back(self._shared)

    @property
    def remote(self) -> bool:
        """Whether a server has the documents."""
        return self._shared.door.address is not None

    # -- reading ----------------------------------------------------------------------------------------------

    def paths(self, prefix: str, after: str = "") -> Iterator[str]:
        """The documents and collections whose paths begin so, behind a path."""
        with self._blaming_the_place():
            for entry in self._documents.list(prefix, after):
                yield entry.path

    def items(self, collection: str, after: str, size: int) -> list[bytes]:
        """The next items of a collection behind an id, by id; none where there is no such collection."""
        wanted = f'id > "{after}"' if after else None  # no id has a quote or a backslash
        with suppress(DocumentNotFound):
            with self._blaming_the_place():
                return [bytes(body) for body in self._documents[collection].query(wanted, size=size, type=msgspec.Raw)]
        return []

    def document(self, path: str) -> bytes | None:
        """The state of a document; None where there is none."""
        with suppress(DocumentNotFound):
            return bytes(self._ask(lambda: self._documents[path].get(type=msgspec.Raw)).body)
        return None

    # -- writing ----------------------------------------------------------------------------------------------

    def write(self, lines: Sequence[BatchLine], seconds: float) -> Sequence[HeadwaterError | None]:
        """Do each of the writes; return the error that each met. Errors: `BadInput` for what no line is to blame for alone; `Unreachable`,
        also after so many seconds: then they may be done or not."""
        outcomes = self._ask(lambda: self._documents.batch(list(lines), timeout=seconds))
        return [outcome if isinstance(outcome, HeadwaterError) else None for outcome in outcomes]

    def check_written(self, path: str) -> None:
        """Check that documents below a path may be written, by deleting one that is not there. Errors: `Denied`."""
        with suppress(DocumentNotFound):
            self._ask(lambda: self._documents[f"{path.removesuffix('/')}/{random_id()}".lstrip("/")].delete())

    def _ask(self, call: Callable[[], Any]) -> Any:
        with self._blaming_the_place():
            return call()

    @contextmanager
    def _blaming_the_place(self) -> Iterator[None]:
        """Errors of the place, which are no message's fault, as `Unreachable`: the run waits, and its next call opens a door anew."""
        try:
            yield
        except (Unavailable, NotOwner, Fenced) as error:
            shared = getattr(self, "_shared", None)
            if shared is not None:
                shared.broken = True
            raise as_unreachable(_told(error, self.where)) from error
        except Denied as error:
            hint = 'Give a token of the role reader to read, and of writer to write: documents(..., token="${NAME}").'
            raise type(error)(f"{self.where} refuses: {error.message}", hint=hint) from error


def _told(error: HeadwaterError, where: str) -> HeadwaterError:
    if isinstance(error, NotOwner):
        hint = "Give the address of the server that owns them, or end that process."
        return Unavailable(f"Another process owns the documents at {where}: {error.message}", hint=hint)
    if isinstance(error, Closed):
        return Unavailable(f"The connection to {where} was closed.", hint="It is opened again.")
    return error


def looked_up(adaptor: DocumentsAdaptor) -> DocumentsConnection | None:
    """A connection to a place that exists; None for a data directory that does not."""
    place = adaptor.located()
    if place.kind == "directory" and not Path(place.where).is_dir():
        return None
    return DocumentsConnection(adaptor)
