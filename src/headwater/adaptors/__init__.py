"""The systems that pipelines read from and write to, a folder each: `adaptor.py` there says what it can do, the rest is how."""
