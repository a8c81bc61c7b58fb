"""The log in segment files of a directory: nothing to install, many processes at once. `log.py` is the engine; the rest are its parts."""
