"""Whatever Spark itself can read or write."""
