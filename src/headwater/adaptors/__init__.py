"""The systems that pipelines read from and write to, one folder each: `adaptor.py` has the options, `source` and `sink` do the work."""
