"""Remembers which regions another process has taken over, until one change of them is told so."""

from __future__ import annotations

from headwater.core.errors import Fenced
from headwater.wal.region_topics import RegionTopics


class TakenRegions:
    """Regions of a namespace whose loss a look or a timer has found. Without it a writer would go on as if nobody had written meanwhile."""

    def __init__(self) -> None:
        self._untold: set[int] = set()

    def add(self, region: int) -> None:
        """The next change is told."""
        self._untold.add(region)

    def forget(self, region: int) -> None:
        """Its user knows, or has opened it again."""
        self._untold.discard(region)

    def tell(self, topics: RegionTopics) -> None:
        """Errors: `Fenced`, once after each `add`."""
        if topics.region in self._untold:
            self._untold.discard(topics.region)
            raise Fenced(
                f"Region {topics} was taken over by another process.",
                hint="Look at what it has written, then write again: the next change opens the region, where nobody else owns it by then.",
            )
