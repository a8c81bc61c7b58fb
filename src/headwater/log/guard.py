"""Guards: conditions of an append on the records since the caller's last read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from headwater.core.errors import BadBounds, Fenced
from headwater.log.record import Record

MOST_RECORDS = 65_536
MOST_BYTES = 64 << 20


class Guard(NamedTuple):
    """A condition that `append(…, guard=)` checks before it appends.

    `since`: the caller knows every record below this offset. `check` is called once, with the records from `since` on to the end, in order
    and as `read` gives them; no record that counts comes between the last of them and those that are appended. It returns to let the
    append go on, and raises to refuse it. Then nothing is appended, and the caller gets the very error that `check` raised, once all
    records that `check` saw are durable: so no caller is refused because of a record that a crash then loses.

    On the embedded engine `check` runs under the partition's lock: every writer of the partition, in any process, waits for it. It has to
    be quick, and must not append to this partition (`Unavailable`). So `since` has to be near the end: `BadBounds` where more than 65 536
    offsets or 64 MiB lie behind it.

    On Kafka only a Writer takes a guard. Of what comes between the high watermark that `check` sees and the Writer's own records, nothing
    counts (`headwater.log.epochs`), or the append is `Fenced`. What `check` sees holds the marks that the engine adds, and records that do
    not count, as `read` does.

    `generation`: the topic's (`Topic.generation`), which the caller read before it read the records below `since`; "" takes any. The
    append is `Fenced` where the topic has been deleted and created again: offsets of the new topic say nothing about what the caller read.
    """

    since: int
    check: Callable[[Sequence[Record]], None]
    generation: str = ""


def too_far(name: str, since: int, end: int) -> BadBounds:
    """The error for a guard whose offset is too far from the end."""
    return BadBounds(
        f"{name} ends at offset {end}, too far behind offset {since} for a guard to look at.",
        hint="Read on to the end first, then append with a guard from there.",
    )


def created_again(name: str) -> Fenced:
    """The error for a guard or a Writer whose topic was deleted and created again."""
    return Fenced(
        f"The topic of {name} was deleted and created again since it was read or claimed.",
        hint="Read the new topic from its start and claim it again.",
    )
