"""Any format that Spark reads or writes."""
