"""A guarded append: calls the guard under the partition's lock. The numbered steps are those of `partition`."""

from __future__ import annotations

from headwater.core.errors import Damaged, OutcomeUnknown, Unavailable
from headwater.core.files import explained
from headwater.log.embedded.page import SegmentPosition
from headwater.log.embedded.partition import Partition
from headwater.log.embedded.reader import PartitionReader
from headwater.log.guard import MOST_BYTES, MOST_RECORDS, Guard, created_again, too_far
from headwater.log.layout import EncodedBatch
from headwater.log.record import Record, whole


def append(partition: Partition, batch: EncodedBatch, epoch: int | None, guard: Guard | None) -> int | Exception:
    """`Partition.append`, unless the guard refuses: then what it raised is returned, and what it was shown is durable.

    It is returned and not raised, because an error of the partition's own may be tried again, and a refusal must not be. Errors: those of
    `Partition.append`; `Fenced` where the guard names another generation of the topic; `OffsetGone`, `BadBounds` and `Damaged` where the
    guard cannot be shown what lies behind its offset; `Unavailable` where what it refused for could not be made durable. All of them but
    `OutcomeUnknown` mean that nothing was appended.
    """
    if guard is None:
        return partition.append(batch, epoch)
    question = _Question(partition, guard)
    try:
        first = partition.append(batch, epoch, question)
    except OutcomeUnknown as error:
        if question.refusal is None:
            raise
        raise Unavailable(
            f"Nothing was appended to {partition.name}: its guard refused it because of records that could not be made durable.",
            hint="Look at the machine's disk, read the end of the partition, then try again.",
        ) from error
    return first if question.refusal is None else question.refusal


class _Question:
    """Called under the lock, after step 1: the tail is where it will be written, and nobody moves it or cuts it off."""

    def __init__(self, partition: Partition, guard: Guard) -> None:
        self._partition, self._guard = partition, guard
        self.refusal: Exception | None = None

    def __call__(self, tail: SegmentPosition) -> Exception | None:
        if self._guard.generation not in ("", self._partition.generation):
            raise created_again(self._partition.name)
        shown = self._behind(tail)
        try:
            self._guard.check(shown)
        except Exception as error:
            self.refusal = error
        return self.refusal

    def _behind(self, tail: SegmentPosition) -> list[Record]:
        """The records from the guard's offset to the tail, durable or not."""
        partition, since = self._partition, whole(self._guard.since)
        if since == tail.offset:
            return []
        if tail.offset - since > MOST_RECORDS:
            raise too_far(partition.name, since, tail.offset)
        reader = PartitionReader(partition.folder, name=partition.name, files=partition.files, boot=partition.boot)
        try:
            shown, size = reader.read_to(partition.manifest, tail, since, max_bytes=MOST_BYTES)
        except FileNotFoundError as error:
            raise Damaged(f"{error.filename} is missing.", hint=reader.hint) from None
        except OSError as error:
            raise explained(error, partition.folder) from error
        finally:
            reader.close()
        if size > MOST_BYTES:
            raise too_far(partition.name, since, tail.offset)
        return shown
