"""Parts named by their offsets, in folders, below prefixes of a store, or wherever Spark writes: what these sinks have in common."""
