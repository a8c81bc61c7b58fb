"""Where volume runs: Spark through PySpark. Importing this package starts nothing and imports no pyspark."""

from headwater.spark.starting import attach, session, stop

__all__ = ["attach", "session", "stop"]
