"""`sql`: a Spark SQL expression over the documents.

Spark evaluates expressions in its Java process, which only a driver can reach: a Python worker inside a task cannot. So this transform is
applied where the session is (`needs_session`), on whole batches: documents become a local table, Spark evaluates the query on it, and what
it gives becomes the documents again.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headwater.core.errors import BadConfig, Rejected, Unavailable, Unsupported
from headwater.core.ids import random_id
from headwater.pipeline.message import Message
from headwater.pipeline.strict import strict
from headwater.pipeline.transform import Apply, Transform

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

DIGITS = 38  # of Spark's longest decimal
_MOST_MISSING = 100  # columns that an expression may name and a batch lack
_ROW = "headwater row"
_ADDING = re.compile(r"\*\s*(?:,(.*))?", re.DOTALL)
_STAR = re.compile(r"(?:^|[(,.])\s*\*|--|/\*")  # a star that is no multiplication, or a comment that may hide one


class Sql(Transform):
    """Made by `sql`."""

    needs_session = True

    def __init__(self, expression: str, where: str | None, schema: str | None, keeps_id: bool) -> None:
        self.expression, self.where, self.schema, self.keeps_id = expression, where, schema, keeps_id
        self.name = f"sql({expression}{f' where {where}' if where else ''})"

    def evaluate(self, session: SparkSession, messages: Sequence[Message]) -> list[Message | None]:
        """What the expression makes of the messages, evaluated by this session. Errors: as `Transform.opened`; `Unavailable`."""
        return self.applied(session)(messages)

    def applied(self, session: SparkSession) -> Apply:
        """The function that `opened` gives, on a session of the caller's. Quickest with some 10 000 messages at once."""
        from headwater.pipeline.transforms.batched import by_namespace

        query = Query(self, session)
        return by_namespace(self, query, schema=_schema(self, session), digits=DIGITS, wanted=query.named if query.adds else None)

    def opened(self) -> Apply:
        """Errors: `Unsupported` where this process has no Spark session, as inside a task."""
        return self.applied(_running(self.name))


class Query:
    """The expression on one session. Remembers which columns batches have lacked."""

    def __init__(self, transform: Sql, session: SparkSession) -> None:
        self._transform, self._session = transform, session
        self._lacking: list[str] = []
        # What begins with a star only adds fields: columns that it does not name need not travel to Spark and back.
        added = _ADDING.fullmatch(transform.expression)
        self.adds = added is not None and not _STAR.search(added[1] or "")
        self._selected = (added[1] or "").strip() if self.adds and added else transform.expression
        self._text = f"{self._selected}\n{transform.where or ''}".casefold()

    def named(self, column: str) -> bool:
        """Whether the expression may mean this column; true for some that it does not."""
        return column.replace("`", "``").casefold() in self._text

    def __call__(self, given: pa.RecordBatch) -> pa.Table:
        import pyarrow as pa
        from py4j.protocol import Py4JError, Py4JJavaError
        from pyspark.errors import PySparkException

        offset = given.column(0)[0].as_py() if len(given) else -1
        table = pa.Table.from_batches([given])
        with _quietly():
            while True:
                try:
                    return self._rows(_completed(table, self._lacking))
                except PySparkException as error:
                    self._check_session(error)
                    name = None if self._transform.schema else _missing(error)
                    if name is None or name in self._lacking or name in self._aliases() or len(self._lacking) >= _MOST_MISSING:
                        raise self._refused(str(error), offset) from error
                    self._lacking.append(name)  # a field that no document of this batch has is null, as one that some have not
                except Py4JJavaError as error:
                    self._check_session(error)
                    raise self._refused(str(error.java_exception), offset) from error
                except (Py4JError, ConnectionError, AttributeError) as error:
                    self._check_session(error)
                    raise

    def _rows(self, table: pa.Table) -> pa.Table:
        from headwater.pipeline.transforms.columns import OFFSET

        session, one = self._session, self._transform
        view = f"headwater_{random_id().replace('-', '')}"  # several sinks ask one session at a time
        session.createDataFrame(table).createTempView(view)
        try:
            where = f"\nWHERE (\n{one.where}\n)" if one.where else ""
            selected = f",\n{self._selected}" if self._selected else ""
            made = session.sql(f"SELECT {OFFSET} AS `{_ROW}`{selected}\nFROM {view}{where}").toArrow()
        finally:
            session.catalog.dropTempView(view)
        for field in made.schema:
            if b"__autoGeneratedAlias" in (field.metadata or {}).get(b"SPARK::metadata::json", b""):
                raise ValueError(f"{field.name} has no name: write `{field.name} AS name`.")
        # `*` also gives the column of offsets, and those that were put in for fields that no document has.
        made = made.select([i for i, one in enumerate(made.schema) if one.name != OFFSET and not self._put_in(one)])
        made = made.rename_columns([OFFSET, *made.schema.names[1:]])
        return made.take(_order(made.column(0)))

    def _check_session(self, error: Exception) -> None:
        """Errors: `Unavailable` when the session has ended, which is no message's fault."""
        try:
            context = self._session.sparkContext._jsc
            if context is not None and not context.sc().isStopped():
                return
        except Exception:  # its Java process does not answer
            pass
        raise Unavailable("The Spark session has ended.", hint="Start the pipeline again.") from error

    def _put_in(self, field: pa.Field) -> bool:
        return field.name in self._lacking and str(field.type) == "null"

    def _aliases(self) -> set[str]:
        """Names that the expression itself gives: one of them in `where` is a mistake, not a missing field."""
        return {a or b for a, b in re.findall(r"\bAS\s+(?:`([^`]+)`|(\w+))", self._transform.expression, re.IGNORECASE)}

    def _refused(self, said: str, offset: int) -> Rejected:
        lines = [line for line in said.strip().splitlines() if line.strip()]
        return Rejected(
            f"Transform {self._transform.name}: {lines[0] if lines else 'Spark gave no reason'}",
            offset=offset,
            trace=said,
            hint="Mend the expression, or the message with `headwater pipeline edit`.",
        )


def _schema(transform: Sql, session: SparkSession) -> pa.Schema | None:
    if transform.schema is None:
        return None
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    try:
        with _quietly():
            columns, problem = StructType.fromDDL(transform.schema), "it names no columns"
    except PySparkException as error:
        columns, problem = None, str(error).strip().splitlines()[0]
    if not isinstance(columns, StructType):
        raise BadConfig(
            f"{transform.name}: {transform.schema!r} is no schema: {problem}",
            hint='Write it as Spark does: "_id BIGINT, name STRING, price DECIMAL(10, 2)".',
        )
    return to_arrow_schema(columns, timezone="UTC")


def _completed(table: pa.Table, names: Sequence[str]) -> pa.Table:
    import pyarrow as pa

    for name in names:
        if name not in table.schema.names:
            table = table.append_column(name, pa.nulls(len(table)))
    return table


def _missing(error: Any) -> str | None:
    """The column that Spark did not find, where that is what it says."""
    if not (error.getCondition() or "").startswith("UNRESOLVED_COLUMN"):
        return None
    found = re.match(r"`((?:[^`]|``)+)`", (error.getMessageParameters() or {}).get("objectName", ""))
    return found[1].replace("``", "`") if found else None


def _order(offsets: Any) -> Any:
    import pyarrow.compute as pc

    return pc.sort_indices(offsets)


def _running(name: str) -> SparkSession:
    from pyspark.sql import SparkSession

    found = SparkSession._instantiatedSession  # getActiveSession knows the sessions of its own thread alone
    if found is None or found.sparkContext._jsc is None:
        raise Unsupported(
            f"Transform {name} is evaluated by Spark's driver, and this process has no Spark session.",
            hint="Run the pipeline with `headwater pipeline run`, or start one with headwater.spark.session().",
        )
    return found


@contextmanager
def _quietly() -> Iterator[None]:
    """PySpark prints every error of a query as it raises it; ours are told once, where they belong."""
    from pyspark.logger import PySparkLogger

    logger = PySparkLogger.getLogger("SQLQueryContextLogger")  # by its own class: a plain logger of this name would break its calls

    def nothing(record: logging.LogRecord) -> bool:
        return False

    logger.addFilter(nothing)
    try:
        yield
    finally:
        logger.removeFilter(nothing)


@strict
def sql(expression: str = "*", *, where: str | None = None, schema: str | None = None, keeps_id: bool = False) -> Transform:
    """Evaluate Spark SQL over the documents: `sql("*, price * qty AS total")`, `sql("*", where="price > 0")`.

    `expression` is what stands between SELECT and FROM: the fields of the new documents, each with a name. `*` is all fields there are,
    `* EXCEPT (card)` all but some; a field named again replaces the earlier one. `where` keeps the documents for which it is true: the
    others are dropped, and count as taken. One document gives one document or none: `explode` and sums over rows are refused. Fields that
    the expression does not change stay exactly as they were.

    Types are found from the documents, as `headwater.pipeline.transforms.columns` says, and a field that is missing is null; a mistyped
    name, then, is null as well. `schema="_id BIGINT, price DECIMAL(10, 2)"` fixes the types of the fields that it names, reads numbers and
    dates out of text, and makes an unknown name an error. Spark's rules hold inside: division by zero is an error of its message, unless
    `try_divide` is used.

    Expressions are evaluated by Spark's driver, not by its workers. For simple work the other transforms are quicker.
    """
    for name, value in (("expression", expression), ("where", where), ("schema", schema)):
        if not isinstance(value, str | None) or (value is not None and not value.strip()):
            raise BadConfig(f"sql: {name} cannot be {value!r}.", hint='Give text, as in sql("*, price * qty AS total").')
    return Sql(expression.strip(), where, schema, bool(keeps_id))
