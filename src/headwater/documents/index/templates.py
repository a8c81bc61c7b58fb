"""Gives collections the indexes of their templates: new ones when they begin, others when a template comes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from headwater.core.errors import AlreadyExists, Closed, HeadwaterError, NotOwner
from headwater.documents.change import IndexDefinition
from headwater.documents.index.template import TEMPLATES, IndexTemplate, templates_in
from headwater.documents.open_documents import OpenDocuments
from headwater.documents.path import ResourcePath

_logger = logging.getLogger("headwater.documents")
_HEADS = 1000


class TemplateIndexes:
    """Looks after the collections of the partitions that this process owns. Belongs to one event loop. `make`: makes an index.

    Whoever dies between a collection's first write and its index leaves it to the next owner, who looks through its partition.
    """

    def __init__(self, documents: OpenDocuments, make: Callable[[str, IndexDefinition], Awaitable[None]]) -> None:
        self._documents, self._make = documents, make
        self._looked: dict[int, bytes] = {}  # partitions, and the settings with which they were looked through
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self) -> None:
        """Begin with the partitions that are taken from now on."""
        self._documents.activated.append(self._taken)
        self._documents.beginning.append(self._begun)

    async def aclose(self) -> None:
        """Finish what is under way. Closing twice is no error."""
        if self._taken in self._documents.activated:
            self._documents.activated.remove(self._taken)
            self._documents.beginning.remove(self._begun)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def templates(self) -> Mapping[str, IndexTemplate]:
        """The templates by id."""
        return templates_in(await self.settings())

    async def look(self, number: int) -> None:
        """Give every collection of a partition its indexes, unless that was done since a template has come. Errors: those of the log and
        the store."""
        settings = await self.settings()
        templates = templates_in(settings)
        if self._looked.get(number) == settings or not templates:
            return
        for uri in await asyncio.to_thread(self._fitting, number, templates):
            await self._apply(uri, templates)
        self._looked[number] = settings

    async def look_everywhere(self) -> None:
        """`look` at every partition that this process owns."""
        for number in self._documents.owned():
            await self.look(number)

    def _taken(self, number: int) -> None:
        self._looked.pop(number, None)
        self._task(self._tried(self.look(number)))

    def _begun(self, uri: str) -> None:
        self._task(self._tried(self._applied(uri)))

    async def _applied(self, uri: str) -> None:
        await self._apply(uri, await self.templates())

    async def _apply(self, uri: str, templates: Mapping[str, IndexTemplate]) -> None:
        for template in templates.values():
            if template.fits(uri):
                try:
                    await self._make(uri, template.index)
                except AlreadyExists:  # it has this one, or one of its own under this id
                    continue

    async def _tried(self, work: Awaitable[None]) -> None:
        try:
            await work
        except (NotOwner, Closed):  # its next owner looks at it
            return
        except HeadwaterError as error:
            self._looked.clear()  # the next pass tries again
            _logger.warning("Indexes of templates are not made yet: %s", error)

    async def settings(self) -> bytes:
        """What holds the templates."""
        head, _ = await self._documents.read(ResourcePath(TEMPLATES))
        return b"" if head is None else head.settings

    def _fitting(self, number: int, templates: Mapping[str, IndexTemplate]) -> list[str]:
        """The collections of a partition that lack an index of a template."""
        uris: list[str] = []
        after = ""
        while True:
            with self._documents.partition_view(number) as view:
                heads = view.heads(after=after, limit=_HEADS)
                for head in heads:
                    wanted = {template.id for template in templates.values() if not head.deleted and template.fits(head.uri)}
                    if wanted and wanted - {index.id for index in view.indexes(head.uri) if index.state != "deleting"}:
                        uris.append(head.uri)
            if len(heads) < _HEADS:
                return uris
            after = heads[-1].uri

    def _task(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
