"""Definitions of indexes: the checks of a new one, and the body that asks for one."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from headwater.core.errors import BadInput
from headwater.documents.change import IndexDefinition, SortField
from headwater.documents.filter.evaluate import compile_filter
from headwater.documents.filter.parser import parse_field
from headwater.documents.index.order import MOST_FIELDS

_ID = re.compile(r"[A-Za-z0-9\-._~:@!$&'()*+,;=]{1,128}\Z")
_NO_INDEX: Final = (".", "..")


class IndexAdvice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The body that creates an index."""

    sort_by: tuple[SortField, ...] = ()
    filter_by: str | None = None


def checked_index(definition: IndexDefinition) -> IndexDefinition:
    """The definition of a new index, whose filter and fields can be read.

    Errors: `BadFilter` for a filter or a field, `BadInput` for anything else.
    """
    if definition.id in _NO_INDEX or not _ID.match(definition.id):
        raise BadInput(
            f"No index can have the id {definition.id!r:.60}.", hint="An id has 1 to 128 of A-Z a-z 0-9 - . _ ~ : @ ! $ & ' ( ) * + , ; ="
        )
    if len(definition.sort_by) > MOST_FIELDS:
        raise BadInput(f"The index has {len(definition.sort_by)} fields.", hint=f"An index has at most {MOST_FIELDS}.")
    paths = [parse_field(field.field_name).names for field in definition.sort_by]
    if len(set(paths)) < len(paths):
        raise BadInput("The index names a field twice.", hint="Name each field of sortBy once.")
    filter_by = definition.filter_by.strip()
    if filter_by:
        compile_filter(filter_by)
    return msgspec.structs.replace(definition, filter_by=filter_by)


def is_alike(index: IndexDefinition, other_index: IndexDefinition) -> bool:
    """Whether two definitions ask for the same rows: creating an index again with PUT changes nothing then."""
    left, right = ((each.sort_by, each.filter_by.strip(), each.materialize) for each in (index, other_index))
    return left == right
