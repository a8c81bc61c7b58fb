"""A run: the source read into the log, and every sink's loop over it. `run.py` is where it begins."""
