"""What is asked of the indexes of collections, and of views."""

from __future__ import annotations

import re
from typing import Annotated, Literal

import msgspec

from headwater.core.errors import BadInput
from headwater.documents.change import IndexDefinition, SortField
from headwater.documents.index.definition import checked_index
from headwater.documents.path import parse_path
from headwater.wire.operation import DryRun, Request, described


class CollectionRequest(Request, frozen=True, kw_only=True):
    """A collection. The ~ at its end may be left out; its slashes may be encoded."""

    path: Annotated[str, described("The collection, as one encoded segment or as several.", segments="collection")]

    def check(self) -> None:
        self.collection()

    def collection(self) -> str:
        """Its path, with the ~. Errors: `BadPath`, `BadInput`."""
        return collection_of(self.path)


class HyperStorageIndexSortItem(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """A field of an index's order. `field_type` tells what is expected; items of another type stand in their place and are counted."""

    field_name: str
    order: Literal["asc", "desc"] | None = None
    field_type: Literal["text", "decimal"] | None = None


class HyperStorageIndexNew(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """An index to make: its id (left out: a new one), its order (left out: by id), and the filter of its items."""

    index_id: str | None = None
    sort_by: tuple[HyperStorageIndexSortItem, ...] | None = None
    filter_by: str | None = None
    materialize: bool = False

    def definition(self, id: str) -> IndexDefinition:
        """The index that is asked for, under an id. Errors: `BadFilter`, `BadInput`."""
        sort_by = tuple(
            SortField(sort_field.field_name, sort_field.order or "asc", sort_field.field_type or "text")
            for sort_field in self.sort_by or ()
        )
        index = IndexDefinition(id=id, number=0, sort_by=sort_by, filter_by=self.filter_by or "", materialize=self.materialize)
        return checked_index(index)


class HyperStorageIndexPost(CollectionRequest, frozen=True, kw_only=True):
    """The index of the body."""

    dry_run: DryRun = False
    new: HyperStorageIndexNew = HyperStorageIndexNew()

    def check(self) -> None:
        super().check()
        check_index_id(self.new.index_id)


class IndexRequest(CollectionRequest, frozen=True, kw_only=True):
    """An index of a collection."""

    index: Annotated[str, described("The id of the index.")]

    def check(self) -> None:
        super().check()
        check_index_id(self.index)


class HyperStorageIndexPut(IndexRequest, frozen=True, kw_only=True):
    """The index of the body."""

    dry_run: DryRun = False
    new: HyperStorageIndexNew = HyperStorageIndexNew()

    def check(self) -> None:
        super().check()
        if self.new.index_id not in (None, self.index):
            raise BadInput(f"The address names {self.index}, and the body {self.new.index_id!r:.40}.", hint="Leave it out of the body.")


class HyperStorageIndexDelete(IndexRequest, frozen=True, kw_only=True):
    """Which index."""

    dry_run: DryRun = False


class ViewNew(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """What a view mirrors: `template_uri`, a path in which {*} stands for one segment, and an expression that its items fulfil."""

    template_uri: str
    filter: str = ""


class ListViews(Request, frozen=True, kw_only=True):
    """Nothing more."""


class ViewRequest(CollectionRequest, frozen=True, kw_only=True):
    """A view."""


class PutView(ViewRequest, frozen=True, kw_only=True):
    """The view of the body."""

    dry_run: DryRun = False
    new: ViewNew | None = None


class DeleteView(ViewRequest, frozen=True, kw_only=True):
    """Which view."""

    dry_run: DryRun = False


def collection_of(path: str) -> str:
    """The path of a collection, whose ~ may be left out. Errors: `BadPath`, `BadInput`."""
    resource_path = parse_path(path if path.endswith("~") else f"{path}~")
    if not resource_path.is_collection:
        raise BadInput(f"{path!r:.80} is an item, and items have no indexes.", hint="Name its collection.")
    return resource_path.uri


def check_index_id(id: str | None) -> None:
    """Errors: `BadInput` for what cannot be the id of an index."""
    if id is not None and not re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]{0,99}", id):
        raise BadInput(f"{id!r:.60} cannot be the id of an index.", hint="Use 1 to 100 letters, digits and ._- of ASCII.")
