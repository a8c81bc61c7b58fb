"""Chooses where work runs: little of it in this process, because a round of Spark costs more, and much of it on Spark."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.spark.lazy import LazySpark

SMALL = 4000  # records: this process takes fewer


class Place(Enum):
    """Where to work now. `MEANWHILE`: Spark is starting; do a share here, and ask again."""

    HERE = "here"
    MEANWHILE = "meanwhile"
    SPARK = "spark"


def place(count: int, spark: LazySpark, *, least: int = SMALL) -> Place:
    """Where to process so many records: on Spark from `least` on, where it may be started. Errors: as `LazySpark.ready`."""
    if count < least or not spark.allowed:
        return Place.HERE
    return Place.SPARK if spark.ready() else Place.MEANWHILE
