"""What the thread of a partition is asked to do, besides writes of clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from headwater.core.document_errors import UnknownIndex
from headwater.core.errors import AlreadyExists
from headwater.core.spelling import meant
from headwater.documents.change import IndexDefinition, IndexState
from headwater.documents.path import ResourcePath


class ExpiryCall(msgspec.Struct, frozen=True):
    """Delete what has expired, unless it lives on."""

    path: ResourcePath


class IndexCall(msgspec.Struct, frozen=True):
    """Change the indexes of a collection.

    `decide`: the definition as it is from here on, by those that are there and a number that no index ever had; None: nothing changes. It
    runs in the thread, against the newest state. It may raise what the caller shall get.
    """

    uri: str
    decide: Callable[[Sequence[IndexDefinition], int], IndexDefinition | None]


class DroppedIndexCall(msgspec.Struct, frozen=True):
    """The rows of an index are gone: its definition goes, too."""

    uri: str
    number: int


class SettingsCall(msgspec.Struct, frozen=True):
    """Set the settings of a collection, by those that it has. `decide` as of `IndexCall`; both are JSON."""

    uri: str
    decide: Callable[[bytes], bytes | None]


class RedriveCall(msgspec.Struct, frozen=True):
    """Apply what is durable and not applied. `rebuild`: remove everything from the store first."""

    rebuild: bool = False


PartitionCall = ExpiryCall | IndexCall | DroppedIndexCall | SettingsCall | RedriveCall


def new_index(uri: str, wanted: IndexDefinition) -> IndexCall:
    """Add an index, whatever number the definition has. Errors of the call: `AlreadyExists`."""

    def decide(indexes: Sequence[IndexDefinition], number: int) -> IndexDefinition:
        if any(index.id == wanted.id and index.state != "deleting" for index in indexes):
            raise AlreadyExists(
                f"{uri} has an index {wanted.id!r:.60}.", hint=f"Drop it first: `headwater doc index drop {uri} {wanted.id}`."
            )
        return msgspec.structs.replace(wanted, number=number)

    return IndexCall(uri, decide)


def index_state(uri: str, number: int, state: IndexState, error: str = "") -> IndexCall:
    """Say how far the building of an index is. An index that is being deleted stays so, and one that is gone stays gone."""

    def decide(indexes: Sequence[IndexDefinition], _: int) -> IndexDefinition | None:
        for index in indexes:
            if index.number == number and index.state != "deleting":
                return msgspec.structs.replace(index, state=state, error=error)
        return None

    return IndexCall(uri, decide)


def deleted_index(uri: str, id: str) -> IndexCall:
    """Begin to delete an index. Errors of the call: `UnknownIndex`."""

    def decide(indexes: Sequence[IndexDefinition], _: int) -> IndexDefinition:
        for index in indexes:
            if index.id == id and index.state != "deleting":
                return msgspec.structs.replace(index, state="deleting")
        raise unknown_index(uri, id, indexes)

    return IndexCall(uri, decide)


def unknown_index(uri: str, id: str, indexes: Sequence[IndexDefinition]) -> UnknownIndex:
    """The error for an unknown index, with the nearest known one."""
    near = meant(id, [index.id for index in indexes if index.state != "deleting"])
    did = f"Did you mean {near}? " if near else ""
    return UnknownIndex(f"{uri} has no index {id!r:.60}.", hint=f"{did}List them with `headwater doc index list {uri}`.")
