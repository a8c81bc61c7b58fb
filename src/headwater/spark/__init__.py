"""Where volume runs: Spark through PySpark. Importing this package starts nothing and imports no pyspark."""
