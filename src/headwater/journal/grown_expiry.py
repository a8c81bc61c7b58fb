"""The expiry of journals with several places, because their topic grew: they are looked at whole, and purged in their newest place."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headwater.core.errors import BadBounds
from headwater.journal.discovery import JournalTopic
from headwater.journal.grown import GrownJournal
from headwater.journal.head import Head
from headwater.journal.names import key_of
from headwater.journal.partition import JournalPartition
from headwater.journal.places import places_of
from headwater.journal.settings import JournalSettings
from headwater.journal.store import JournalStore
from headwater.log import Log

_PAGE = 1000  # heads
_TOGETHER = 500  # Purges of one append
_TIMES = 5  # how often a partition that grows quickly is looked at again
Append = Callable[[int, int, Sequence[str]], Sequence[str]]
"""As `headwater.journal.expiry.PurgeAppender`."""


class GrownExpiry:
    """`counts`: the numbers of partitions that the topic has had. `expired`: whether a head's day has come. Blocking."""

    def __init__(
        self, log: Log, store: JournalStore, topic: JournalTopic, counts: Sequence[int], *, expired: Callable[[Head], bool]
    ) -> None:
        log_topic = log.topic(topic.name)
        self._counts, self._expired = counts, expired
        self._partitions = [
            JournalPartition(log, lambda: store, log_topic, number, settings=JournalSettings()) for number in range(topic.partitions)
        ]

    def candidates(self) -> dict[int, list[str]]:
        """Journals of which some place says, in the store, that their day has come; by the place where they are purged."""
        candidates: dict[int, dict[str, None]] = {}
        for partition in self._partitions:
            with partition.view() as view:
                after: str | None = None
                while view is not None and (page := view.heads(after, _PAGE)):
                    for id, head in page:
                        places = places_of(key_of(id), self._counts)
                        if len(places) > 1 and self._expired(head):
                            candidates.setdefault(places[-1], {})[id] = None
                    after = page[-1][0]
        return {place: sorted(ids) for place, ids in sorted(candidates.items())}

    def purge(self, place: int, ids: Sequence[str], append: Append | None) -> tuple[dict[str, Head], set[str]]:
        """Those of these journals that have expired, with all that is in the log, and those of them that are purged. `append`: None in a
        dry run."""
        due: dict[str, Head] = {}
        done: set[str] = set()
        for _ in range(_TIMES):
            end = self._partitions[place].end()
            heads = {id: self._journal(id).head(end, full=True) for id in ids if id not in done}
            due |= {id: head for id, head in heads.items() if head is not None and self._expired(head)}
            left = [id for id, head in heads.items() if head is not None and self._expired(head)]
            due = {id: head for id, head in due.items() if id in done or id in left}
            if append is None or not left:
                break
            try:
                for first in range(0, len(left), _TOGETHER):
                    done.update(append(place, end, left[first : first + _TOGETHER]))
                break
            except BadBounds:  # too much came since: look again
                continue
        return due, done

    def _journal(self, id: str) -> GrownJournal:
        return GrownJournal([self._partitions[number] for number in places_of(key_of(id), self._counts)], id)
