"""Settings of the sessions that tests start: a Java that compiles sparingly does what a few minutes of tests need with less work."""

from __future__ import annotations

from headwater.core.settings import Passed, SparkSettings


def quick(master: str = "local[2]", **conf: str) -> SparkSettings:
    return SparkSettings(master=master, conf=Passed({"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1", **conf}))
