"""What operators are told of documents: partitions, trails, verification."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from headwater.documents.answers import HyperStorageTransaction
from headwater.wire.operation import described


class DocumentPartitionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A partition of the log of documents. `lag`: records that the store does not have yet; `waiting`: writes that wait."""

    partition: int
    state: Annotated[
        Literal["Unknown", "Passive", "Activating", "Active", "Deactivating"],
        described("As the server that is asked sees it: Active: it owns it; Passive: another process does, or nobody."),
    ]
    end: int
    applied: int
    lag: int
    waiting: int = 0
    owner: Annotated[str, described("The process that owns it; empty where nobody does, or where only the brokers know.")] = ""
    address: Annotated[str, described("Where that process serves; its own status has the state there.")] = ""
    error: Annotated[str, described("Why its store does not fit its log, or why its owner cannot be asked; empty where both is well.")] = ""


class DocumentsStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The documents of a log. `created`: whether a first write has made their topic."""

    topic: str
    created: bool
    store: str
    partitions: list[DocumentPartitionStatus]


class DocumentTrail(msgspec.Struct, frozen=True, kw_only=True):
    """A document or collection on its way: the newest transactions first. `revision`: of the store; 0 where it has nothing."""

    path: str
    logical_partition: int
    partition: int = 0
    revision: int = 0
    generation: int = 0
    deleted: bool = False
    applied: int = 0
    end: int = 0
    transactions: list[HyperStorageTransaction] = []


class VerifiedDocuments(msgspec.Struct, frozen=True, kw_only=True):
    """What is the same in the log and in the store: records, documents and collections, rows (documents and items), rows of indexes."""

    partitions: int
    records: int
    documents: int
    rows: int
    index_rows: int


class PartitionElsewhere(msgspec.Struct, frozen=True, kw_only=True):
    """A partition that was left to the process that owns it. `address`: where that serves, or empty; `says`: who it is."""

    partition: int
    address: str = ""
    says: str = ""


class RebuiltDocuments(msgspec.Struct, frozen=True, kw_only=True):
    """What was folded anew: so many partitions, of so many records."""

    partitions: int
    records: int
    dry_run: bool = False
    elsewhere: Annotated[
        list[PartitionElsewhere], described("Partitions that other processes own, and that were left as they are: ask there.")
    ] = []
