"""What is asked of templates of indexes."""

from __future__ import annotations

from typing import Annotated

import msgspec

from headwater.documents.answers import ShownSortItem
from headwater.documents.index.template import IndexTemplate
from headwater.documents.index_requests import HyperStorageIndexNew, HyperStorageIndexSortItem, check_index_id
from headwater.wire.operation import DryRun, Request, described


class TemplateNew(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """An index, and the path of the collections that get it: * in it stands for any characters but a slash."""

    template_uri: str
    sort_by: tuple[HyperStorageIndexSortItem, ...] | None = None
    filter_by: str | None = None
    materialize: bool = False

    def template(self, id: str) -> IndexTemplate:
        """The template that is asked for, under an id. Errors: `BadPath`, `BadFilter`, `BadInput`."""
        new = HyperStorageIndexNew(sort_by=self.sort_by, filter_by=self.filter_by, materialize=self.materialize)
        index = new.definition(id)
        template = IndexTemplate(
            id=id, template_uri=self.template_uri, sort_by=index.sort_by, filter_by=index.filter_by, materialize=index.materialize
        )
        template.check()
        return template


class ListTemplates(Request, frozen=True, kw_only=True):
    """Nothing more."""


class TemplateRequest(Request, frozen=True, kw_only=True):
    """A template."""

    index: Annotated[str, described("The id of the template, and of the indexes that it makes.")]

    def check(self) -> None:
        check_index_id(self.index)


class PutTemplate(TemplateRequest, frozen=True, kw_only=True):
    """The template of the body."""

    dry_run: DryRun = False
    new: TemplateNew | None = None


class DeleteTemplate(TemplateRequest, frozen=True, kw_only=True):
    """Which template."""

    dry_run: DryRun = False


class ShownTemplate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A template: the index that every collection gets whose path fits."""

    index_id: str
    template_uri: str
    sort_by: list[ShownSortItem]
    filter_by: str = ""
    materialize: bool = False
