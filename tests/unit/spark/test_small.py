"""Where work is done. No Spark is started."""

from __future__ import annotations

import pytest

from headwater.core.settings import SparkSettings
from headwater.log.address import LogAddress
from headwater.spark.lazy import LazySpark
from headwater.spark.small import SMALL, Place, place


class Starting(LazySpark):
    """Spark that takes its time to start."""

    asked = 0
    there = False

    def ready(self) -> bool:
        self.asked += 1
        return self.there


def made(start: str = "lazy") -> Starting:
    return Starting(LogAddress(path="x"), SparkSettings(start=start))  # type: ignore[arg-type]


def test_little_work_is_done_here_and_starts_nothing() -> None:
    spark = made()
    assert place(SMALL - 1, spark) is Place.HERE
    assert place(1, spark, least=2) is Place.HERE
    assert spark.asked == 0


def test_much_work_goes_on_here_until_spark_is_there() -> None:
    spark = made()
    assert place(SMALL, spark) is Place.MEANWHILE
    spark.there = True
    assert place(SMALL, spark) is Place.SPARK
    assert place(2, spark, least=2) is Place.SPARK


@pytest.mark.parametrize("count", [0, SMALL, 10**9])
def test_where_spark_may_not_be_started_everything_is_done_here(count: int) -> None:
    spark = made("never")
    assert place(count, spark) is Place.HERE
    assert spark.asked == 0
