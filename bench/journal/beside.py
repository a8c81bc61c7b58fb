"""Journals beside the library eventsourcing, which keeps its events in SQLite and syncs every save, as we do."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench import mark
from bench.case import Case, Side, Skipped
from bench.journal.filled import copy, fill
from bench.journal.opened import PAYLOAD, OpenJournals
from bench.journal.reading import SHORT, Reads
from bench.peers import eventsourcing
from bench.place import Place
from bench.sizes import Sizes
from headwater.core.errors import Unavailable

_CALLERS, _EACH = 64, 40
_SEVERAL = 100
_READS = 200


def beside(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """64 callers against 64 threads, with one event and with a hundred in each Append; then entities of ten."""
    with place.sub("beside") as folder:
        try:
            with eventsourcing.started(folder, PAYLOAD) as peer, OpenJournals.opened(folder) as journals:
                label = f"eventsourcing {peer.version} on SQLite"
                yield Case(
                    f"journal {_CALLERS} callers beside eventsourcing",
                    "event",
                    Side("append", partial(journals.appends, _CALLERS, _EACH)),
                    Side(label, partial(peer.appends, _CALLERS, max(1, _EACH // 20))),
                    mark.ratio(20),
                )
                yield Case(
                    f"journal {_CALLERS} callers, {_SEVERAL} events each time, beside eventsourcing",
                    "event",
                    Side("append", partial(journals.appends, _CALLERS, 2, events=_SEVERAL)),
                    Side(label, partial(peer.appends, _CALLERS, 1, events=_SEVERAL)),
                    mark.ratio(5),
                )
                data = folder / "copied"
                fill(data, journals=sizes.journals, events=SHORT)
                copy(data)
                peer.fill(sizes.journals, SHORT)
                with Reads.opened(data, sizes.journals, SHORT) as reads:
                    yield Case(
                        f"journal read of {SHORT} beside eventsourcing",
                        "event",
                        Side("read", partial(reads.round, _READS)),
                        Side(label, partial(peer.reads, _READS, SHORT)),
                        mark.ratio(3),
                    )
        except Unavailable as problem:
            yield Skipped("journal beside eventsourcing", str(problem))
