"""Compacting closed segments, against copying their bytes."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.case import Case, Sample, Side, Skipped
from bench.place import TOPIC, Place, segments
from bench.sizes import Sizes
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import TopicSettings

_SEGMENTS = 8


def compaction(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """Every key four times, in eight segments; and every key once, where nothing can be let go of."""
    settings = TopicSettings(segment=max(1, sizes.records * 145 // _SEGMENTS))
    for times in (4, 1):
        with place.filled(sizes.records, per_batch=1000, keys=sizes.records // times, settings=settings) as folder:
            yield Case(
                f"compact, each key {times} ×" if times > 1 else "compact, nothing to remove",
                "record",
                Side("log.compact", partial(_compact, place, folder)),
                Side("copy + fsync", partial(_copy, place, folder, sizes.records)),
                rounds=sizes.few,
            )


def _compact(place: Place, folder: Path) -> Sample:
    with place.sub("compact") as copy:
        shutil.copytree(folder, copy, dirs_exist_ok=True)
        with EmbeddedLog(copy) as log:
            log.partition(TOPIC, 0)
            begun = time.perf_counter()
            done = log.compact(TOPIC, 0)
            return Sample(done.records_before, time.perf_counter() - begun)


def _copy(place: Place, folder: Path, count: int) -> Sample:
    with place.sub("copy") as copy:
        begun = time.perf_counter()
        for path in segments(folder):
            shutil.copyfile(path, copy / path.name)
            fd = os.open(copy / path.name, os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)
        return Sample(count, time.perf_counter() - begun)
