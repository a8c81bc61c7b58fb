"""What everything stands on: errors, settings, time, ids, metrics, byte keys, durable files."""
