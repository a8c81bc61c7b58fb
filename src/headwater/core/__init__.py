"""The lowest layer: errors, settings, time, ids, metrics, byte keys, durable files."""
