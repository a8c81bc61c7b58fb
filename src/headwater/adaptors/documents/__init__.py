"""Documents and collections of a data directory, or of a headwater server."""
