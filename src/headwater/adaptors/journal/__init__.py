"""Event journals as a source of pipelines."""
