"""A partition as one process has it: what everybody reads, and, while this process owns it, its writer."""

from __future__ import annotations

import asyncio

from headwater.documents.partition import DocumentPartition
from headwater.documents.partition_reads import PartitionReads
from headwater.documents.partition_status import PartitionState


class PartitionPlace:
    """Belongs to one event loop. `gate`: it is taken or released by one task at a time. `stashed`: writes that wait until it is taken."""

    def __init__(self, reads: PartitionReads) -> None:
        self.reads = reads
        self.state: PartitionState = "Passive"
        self.partition: DocumentPartition | None = None
        self.gate = asyncio.Lock()
        self.opening: asyncio.Task[DocumentPartition] | None = None
        self.stashed = 0
