"""Appends: what numbering and the form of an Append cost beside the bare log, beside the disk, and with other numbers of partitions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

from bench import mark
from bench.case import Case, Side
from bench.floor import BareWrites
from bench.journal.opened import PARTITIONS, OpenJournals
from bench.place import Place
from bench.sizes import Sizes

_LEAST = {1: 0.8, 64: 0.6, 1024: 0.45}  # callers → least ratio
EACH = {1: 25, 64: 40, 1024: 20}
"""Callers → Appends of each in a round: short rounds see the same moods of the disk on both sides."""
_MORE = 8  # partitions, as a topic on Kafka has
_CLOCKS = (("", time.perf_counter), (", processor time", time.process_time))


def appending(place: Place, sizes: Sizes) -> Iterator[Case]:
    """n callers with a journal each, against n callers of the bare log's group commit with ready records of as many bytes."""
    with place.sub("journal") as folder, OpenJournals.opened(folder) as journals:
        for callers, least in _LEAST.items():
            for name, clock in _CLOCKS:
                yield Case(
                    f"journal {callers} callers{name}",
                    "append",
                    Side("append", partial(journals.appends, callers, EACH[callers], clock)),
                    Side("group commit", partial(journals.bare, callers, EACH[callers], clock)),
                    mark.ratio(least),
                    shown="rate" if clock is time.perf_counter else "time",
                    rounds=sizes.turns if callers < 1024 else None,
                )
        with BareWrites(folder / "bare-writes", journals.bytes_of_append()) as writes:
            yield Case(
                "journal 1 caller beside the disk",
                "append",
                Side("append", partial(journals.appends, 1, EACH[1])),
                Side("write + fdatasync", partial(writes.round, EACH[1])),
                mark.ratio_on_slow_disks(0.8, 0.0002),
                rounds=sizes.turns,
            )


def sweep(place: Place, sizes: Sizes) -> Iterator[Case]:
    """The partitions of a new topic: 2, as on this machine, against 8, as on Kafka."""
    with (
        place.sub("few") as few,
        place.sub("more") as more,
        OpenJournals.opened(few) as ours,
        OpenJournals.opened(more, partitions=_MORE) as others,
    ):
        for callers in _LEAST:
            for name, clock in _CLOCKS:
                yield Case(
                    f"journal {callers} callers, {PARTITIONS} partitions beside {_MORE}{name}",
                    "append",
                    Side(f"{PARTITIONS} partitions", partial(ours.appends, callers, EACH[callers], clock)),
                    Side(f"{_MORE} partitions", partial(others.appends, callers, EACH[callers], clock)),
                    shown="rate" if clock is time.perf_counter else "time",
                    rounds=max(1, sizes.turns // 4) if callers < 1024 else sizes.few,
                )
