"""The embedded engine: the log in segment files of a directory, for many processes at once. `log.py` is the engine; the rest are its
parts."""
