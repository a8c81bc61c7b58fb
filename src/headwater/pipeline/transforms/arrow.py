"""`arrow`: a function of the pipeline's file, called with a batch of documents as Arrow columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headwater.core.errors import BadConfig
from headwater.pipeline.strict import strict
from headwater.pipeline.transform import Apply, Transform

if TYPE_CHECKING:
    import pyarrow as pa

    Function = Callable[[pa.RecordBatch], pa.RecordBatch | pa.Table]


class Arrow(Transform):
    """Made by `arrow`."""

    def __init__(self, function: Function, schema: pa.Schema | None, keeps_id: bool) -> None:
        self.function, self.schema, self.keeps_id = function, schema, keeps_id
        self.name = f"arrow({getattr(function, '__name__', type(function).__name__)})"

    def opened(self) -> Apply:
        from headwater.pipeline.transforms.batched import by_namespace

        # A changed id is told from the one before, and then parts of the batch are tried again.
        return by_namespace(self, self.function, schema=self.schema, digits=76, anew=self.keeps_id)


@strict
def arrow(fn: Function, *, schema: pa.Schema | None = None, keeps_id: bool = False) -> Transform:
    """Call a function with batches of documents as a `pyarrow.RecordBatch`, one namespace at a time; it returns a RecordBatch or Table.

    The batch has the column `_offset` and one column for each top-level field; how types are found is written in
    `headwater.pipeline.transforms.columns`, and `schema` fixes them for the columns that it names. The namespace is in the schema's
    metadata, under `headwater.namespace`. In what is returned:

      - `_offset` says which row is which. Rows may be left out: those messages are dropped, and count as taken. Rows cannot be added,
        doubled or moved.
      - Its columns are the new documents. A value that is what was given stays exactly as it was in the document, extended JSON included,
        and a field that was missing stays missing where it is null. New columns become fields, columns that are gone are removed.

    How many messages come at once differs, down to one: the result must not depend on it. When the function raises, it is called again with
    parts of the batch, until the message is found that it raises for, which becomes a poison record. `keeps_id` is as for `python`.
    """
    if not callable(fn):
        raise BadConfig(f"arrow: {fn!r} is no function.", hint="Give a function that takes a pyarrow.RecordBatch: arrow(fix).")
    if schema is not None and not hasattr(schema, "names"):
        raise BadConfig(f"arrow: {schema!r} is no schema.", hint="Give a pyarrow.schema of the columns whose type is known.")
    return Arrow(fn, schema, bool(keeps_id))
