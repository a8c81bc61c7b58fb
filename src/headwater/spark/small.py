"""Where work is done: little of it in this process, much of it on Spark, whose rounds cost more than a little work does."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.spark.lazy import LazySpark

SMALL = 4000  # records: fewer are worked off here


class Place(Enum):
    """Where to work now. `MEANWHILE`: Spark is starting; do a share here, and ask again."""

    HERE = "here"
    MEANWHILE = "meanwhile"
    SPARK = "spark"


def place(count: int, spark: LazySpark, *, least: int = SMALL) -> Place:
    """Where to work off so many records: on Spark from `least` on, if it may be started. Begins its start. Errors: as `LazySpark.ready`."""
    if count < least or not spark.allowed:
        return Place.HERE
    return Place.SPARK if spark.ready() else Place.MEANWHILE
