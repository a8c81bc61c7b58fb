"""Pipelines: one source, many sinks, nothing lost, every bad record seen, fixed and replayed."""
