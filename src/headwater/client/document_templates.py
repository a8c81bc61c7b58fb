"""Performs the operations on templates of indexes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from headwater.documents import answers
from headwater.documents import template_requests as requests
from headwater.documents.index.template import IndexTemplate, new_template, no_template, unknown_template
from headwater.documents.index.templates import TemplateIndexes
from headwater.documents.open_documents import OpenDocuments
from headwater.documents.template_requests import ShownTemplate
from headwater.wire.operation import Reply


class DocumentTemplates:
    """Templates of the documents that `opened` gives. `indexes`: gives their collections what is missing, once there are documents."""

    def __init__(self, opened: Callable[[], Awaitable[OpenDocuments]], indexes: Callable[[], TemplateIndexes]) -> None:
        self._opened, self._indexes = opened, indexes

    async def template_list(self, request: requests.ListTemplates) -> list[ShownTemplate]:
        await self._opened()
        return [_shown(template) for template in (await self._indexes().templates()).values()]

    async def template_get(self, request: requests.TemplateRequest) -> ShownTemplate:
        """Errors: `UnknownIndex`."""
        await self._opened()
        template = (await self._indexes().templates()).get(request.index)
        if template is None:
            raise unknown_template(request.index)
        return _shown(template)

    async def template_put(self, request: requests.PutTemplate) -> Reply[ShownTemplate]:
        """Errors: `AlreadyExists`, `BadInput`, `BadFilter`."""
        assert request.new is not None
        documents, call = await self._opened(), new_template(template := request.new.template(request.index))
        if request.dry_run:
            call.decide(await self._indexes().settings())
            return Reply(_shown(template), 200)
        made = await documents.change(call.uri, call)
        await self._indexes().look_everywhere()
        return Reply(_shown(template), 201 if made is not None else 200)

    async def template_delete(self, request: requests.DeleteTemplate) -> None:
        """Errors: `UnknownIndex`."""
        documents, call = await self._opened(), no_template(request.index)
        if request.dry_run:
            call.decide(await self._indexes().settings())
            return
        await documents.change(call.uri, call)


def _shown(template: IndexTemplate) -> ShownTemplate:
    order = [
        answers.ShownSortItem(field_name=field.field_name, order=field.order, field_type=field.field_type) for field in template.sort_by
    ]
    return ShownTemplate(
        index_id=template.id,
        template_uri=template.template_uri,
        sort_by=order,
        filter_by=template.filter_by,
        materialize=template.materialize,
    )
