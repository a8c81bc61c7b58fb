"""Which messages in another pipeline's log on Kafka count: those that its tasks have written do once its run has taken their work."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headwater.log.epochs import LENT
from headwater.log.record import Record
from headwater.pipeline.offsets.state import ReaderState


class LentMessages:
    """Asks the other pipeline's offset log, when a message comes of which it does not know."""

    def __init__(self, stored: Callable[[], ReaderState | None]) -> None:
        self._stored = stored
        self._known: ReaderState | None = None

    def decided(self, records: Sequence[Record]) -> tuple[set[int], int | None]:
        """The offsets of records that do not count, and of the first one of which that is not known yet: its round is under way."""
        lent = [record.offset or 0 for record in records if any(name == LENT for name, _ in record.headers)]
        copied = False
        if any(self._taken(offset) is None for offset in lent):
            self._known = self._stored()
            copied = self._known is not None and self._known.copied  # asked after the records were read: no task that wrote them counts
        left_out: set[int] = set()
        for offset in lent:
            taken = self._taken(offset)
            if taken is None and not copied:
                return left_out, offset
            if not taken:
                left_out.add(offset)
        return left_out, None

    def _taken(self, offset: int) -> bool | None:
        known = self._known
        if known is None:
            return None
        if any(start <= offset < end for start, end in known.lent):
            return True
        return False if offset < known.upto else None
