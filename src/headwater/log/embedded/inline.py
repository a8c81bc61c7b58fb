"""An append in the caller's thread that waits for nobody. The numbered steps are those of `partition`.

The event loop of a server appends so: waking a thread and being woken by it costs more than the append of a small batch.
"""

from __future__ import annotations

from headwater.core.errors import HeadwaterError
from headwater.log.embedded.partition import Partition
from headwater.log.layout import EncodedBatch

QUICK = 0.0001  # seconds of a sync for which a loop may stop: about as long as it works on a request


def append(partition: Partition, batch: EncodedBatch) -> int | None:
    """`Partition.append` without a claim; None, and nothing was done, where it would wait.

    It would wait for another thread or process with the lock; for a disk whose slowest sync of late took longer than `QUICK`; for a roll, a
    manifest that is due, zeros that are written ahead. The lock is held until the batch is published, so that no one else can make it wait
    on the way. A sync that fails is repaired here: the loop waits for that.
    """
    if partition.slowest_sync > QUICK:
        return None
    try:
        return _append(partition, batch)
    except HeadwaterError:
        raise
    except BaseException:
        partition.abandon()
        raise


def _append(partition: Partition, batch: EncodedBatch) -> int | None:
    exclusive = partition.exclusive
    if not exclusive.mutex.acquire(blocking=False):
        return None
    try:
        if not exclusive.try_acquire():
            return None
        try:
            begun, file = partition.clock.monotonic(), partition.unchanged()  # 1.
            tail = partition.page.tail
            if file is None or not file.reserved(tail.position + len(batch.buffer)) or partition.settle_due(tail):
                return None
            ticket = partition.put(file, batch)  # 2.
            try:
                partition.sync_file(file)  # 3.
            except OSError as error:
                raise partition.repaired(ticket, error) from error  # 5.
            partition.publish(ticket)  # 4.
        finally:
            exclusive.release()
    finally:
        exclusive.mutex.release()
    partition.appends += 1
    partition.count(ticket, begun)
    return ticket.first
