"""Every part of headwater, in the order of the help. Adding a part is its folder and one line here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headwater.core.sections import NamedSection, Section
from headwater.documents.operations import DOCUMENTS
from headwater.journal.operations import JOURNAL
from headwater.log.operations import LOG
from headwater.pipeline.operations import PIPELINES
from headwater.queue.operations import QUEUE
from headwater.wal.operations import WAL
from headwater.wire.operation import Operation
from headwater.wire.part import PartDefinition

PARTS: tuple[PartDefinition, ...] = (LOG, PIPELINES, WAL, QUEUE, JOURNAL, DOCUMENTS)


def part_named(name: str) -> PartDefinition:
    """The part of this name."""
    return next(part for part in PARTS if part.name == name)


def tables() -> dict[str, str]:
    """What Spark can load of the parts: by scheme, the path of what makes the table."""
    return {scheme: path for part in PARTS for scheme, path in part.tables.items()}


def operations() -> Iterator[Operation[Any, Any]]:
    """Everything that users can do, part by part."""
    for part in PARTS:
        yield from part.operations


def operation_named(identity: str) -> Operation[Any, Any]:
    """The operation of this `id`."""
    return next(operation for operation in operations() if operation.id == identity)


def sections() -> list[Section[Any] | NamedSection[Any]]:
    """The sections of settings that the parts bring."""
    return [section for part in PARTS for section in part.sections]
