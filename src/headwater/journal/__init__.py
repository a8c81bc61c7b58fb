"""Event journals: the events of an entity, appended to the log, read at once, and copied into a store."""
