"""The transforms that exist. Each is made by a function of its name and put between a source and a sink: `rows.transform(omit("card"))`."""

from headwater.pipeline.transforms.arrow import arrow
from headwater.pipeline.transforms.fields import omit, pick, rename
from headwater.pipeline.transforms.opfilter import opfilter
from headwater.pipeline.transforms.pretty import pretty
from headwater.pipeline.transforms.python import python
from headwater.pipeline.transforms.remap import remap
from headwater.pipeline.transforms.skip import keep, skip
from headwater.pipeline.transforms.sql import sql

__all__ = ["arrow", "keep", "omit", "opfilter", "pick", "pretty", "python", "remap", "rename", "skip", "sql"]
