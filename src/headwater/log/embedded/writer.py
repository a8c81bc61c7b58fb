"""A claim of the embedded engine: its epoch lives in the commit page and the manifest, and records carry nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headwater.log import Writer
from headwater.log.embedded.housekeeping import delete_before, roll
from headwater.log.encoding import encode
from headwater.log.guard import Guard, created_again
from headwater.log.record import Compacted, Record

if TYPE_CHECKING:
    import pyarrow as pa

    from headwater.log.embedded.log import EmbeddedLog
    from headwater.log.embedded.partition import Partition


class EmbeddedWriter(Writer):
    """See `Writer`. Every call compares the epoch under the partition's lock; whoever knows the epoch works under the claim.

    `generation` is that of the topic: one that is made anew counts its epochs from 1 again, and a claim of before would pass for its own.
    """

    def __init__(self, log: EmbeddedLog, topic: str, partition: int, epoch: int, *, generation: str) -> None:
        self._log, self.topic, self.partition, self.epoch, self.generation = log, topic, partition, epoch, generation

    def checked(self, opened: Partition) -> Partition:
        """The partition. Errors: `Fenced` where it is of another topic of the same name."""
        if opened.generation != self.generation:
            raise created_again(opened.name)
        return opened

    def append(self, records: Sequence[Record], *, guard: Guard | None = None) -> range:
        return self._log.append_encoded(
            self.topic, self.partition, lambda limit, now: encode(records, now=now, limit=limit), self, guard=guard
        )

    def append_arrow(self, batch: pa.RecordBatch) -> range:
        from headwater.log.embedded.columns import encode_columns

        return self._log.append_encoded(self.topic, self.partition, lambda limit, now: encode_columns(batch, now=now, limit=limit), self)

    def roll(self, *, due: bool = False) -> int:
        return self._log.freeing(self.topic, self.partition, lambda opened: roll(self.checked(opened), self.epoch, due=due))

    def delete_before(self, offset: int) -> int:
        return self._log.freeing(self.topic, self.partition, lambda opened: delete_before(self.checked(opened), offset, self.epoch))

    def compact(self, before: int | None = None) -> Compacted:
        from headwater.log.embedded.compaction import compact

        return self._log.with_partition(
            self.topic, self.partition, lambda opened: compact(self.checked(opened), before=before, epoch=self.epoch)
        )
