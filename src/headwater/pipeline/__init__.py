"""Pipelines: one source, many sinks, nothing lost, every bad record seen, fixed and replayed.

from headwater.pipeline import Pipeline, omit
from headwater.pipeline.adaptors import file, sqlite

p = Pipeline("orders")
rows = p.source("shop", file("orders.csv"))
rows.transform(omit("card")).save("archive", file("archive/", format="parquet"))
rows.save("report", sqlite("report.db"))
"""

from headwater.pipeline.definition import Pipeline
from headwater.pipeline.env import env
from headwater.pipeline.message import Message, Op
from headwater.pipeline.policy import DeadLetter, Retry, Stop, retry
from headwater.pipeline.transforms import arrow, keep, omit, opfilter, pick, pretty, python, remap, rename, skip, sql

__all__ = [
    "DeadLetter",
    "Message",
    "Op",
    "Pipeline",
    "Retry",
    "Stop",
    "arrow",
    "env",
    "keep",
    "omit",
    "opfilter",
    "pick",
    "pretty",
    "python",
    "remap",
    "rename",
    "retry",
    "skip",
    "sql",
]
