"""Files: jsonl, csv and parquet, in folders or alone, compressed or not."""
