"""What users set of documents, in `[documents]`."""

from __future__ import annotations

from typing import Annotated

import msgspec

from headwater.core.sections import Section
from headwater.core.settings import Note
from headwater.core.units import Duration, Size
from headwater.documents.path import LOGICAL_PARTITIONS

_SECOND, _MINUTE, _DAY = 1000, 60_000, 86_400_000


class DocumentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How documents are kept, queried and recovered."""

    partitions: Annotated[
        int,
        Note("Partitions of the topic when it is created; 0: 2 on this machine, 8 on Kafka. Frozen then.", "8", 0, LOGICAL_PARTITIONS),
    ] = 0
    page_size: Annotated[int, Note("Items of a page where a query names no size.", "100", 1, 10_000)] = 100
    skip_max: Annotated[int, Note("Rows that a query may read and not return.", "10000", 0, 10_000_000)] = 10_000
    max_reads: Annotated[int, Note("Reads of the store that a query may take.", "20", 1, 10_000)] = 20
    query_timeout: Annotated[Duration, Note("How long a query may take.", '"15s"', 1)] = Duration(15 * _SECOND)
    max_body: Annotated[Size, Note("The largest body of a document or item.", '"4MiB"', 1, 5 << 20)] = Size(4 << 20)
    keep: Annotated[
        Duration,
        Note("How long the log keeps changes, which history and feeds read; a day at least. 0ms: for ever.", '"30d"', 0),
    ] = Duration(0)
    max_backlog: Annotated[
        int, Note("Changes of a partition that may be durable and not in the store before writes are refused.", "10000", 1, 100_000)
    ] = 10_000
    max_stash: Annotated[int, Note("Writes that wait for a partition while this process takes it.", "4096", 1, 1_000_000)] = 4096
    background_task_timeout: Annotated[Duration, Note("The age from which hot recovery looks after a change.", '"2m"', 0)] = Duration(
        2 * _MINUTE
    )
    hot_recovery: Annotated[Duration, Note("The age up to which hot recovery looks after a change.", '"30m"', 1)] = Duration(30 * _MINUTE)
    hot_retry: Annotated[Duration, Note("The pause between two passes of hot recovery.", '"15s"', 1)] = Duration(15 * _SECOND)
    stale_recovery: Annotated[Duration, Note("The age up to which stale recovery compares changes with the store.", '"1d"', 1)] = Duration(
        _DAY
    )
    stale_retry: Annotated[Duration, Note("The pause between two passes of stale recovery.", '"3m"', 1)] = Duration(3 * _MINUTE)
    small: Annotated[
        int, Note("An index of fewer items is built without Spark; -1: 1000000 on this machine, 100000 in Cassandra.", "250000", -1)
    ] = -1
    chores: Annotated[Duration, Note("The pause between two passes that remove what is deleted.", '"1m"', 1)] = Duration(_MINUTE)


DOCUMENTS_SECTION = Section("documents", DocumentSettings)
