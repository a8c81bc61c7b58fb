"""Makes `spark.read.format("headwater")` known to every Spark session with no registration.

Spark imports every top-level module whose name begins with `pyspark_` and takes its `DefaultSource` under the name that this gives itself.
An import error here would fail every data source of the session, so this imports what it needs and nothing more.
"""

from headwater.spark.source import Source as DefaultSource

__all__ = ["DefaultSource"]
