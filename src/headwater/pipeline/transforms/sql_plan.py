"""How an `sql` transform is evaluated where the documents are, in Spark's tasks: found once, in the driver, from the types of some of them.

Its rows have a number within their batch, and a mark: the last row of each batch, which says that the batch is whole. What ends without
one has broken off, and must not be taken for rows that were filtered out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from headwater.pipeline.message import Message
from headwater.pipeline.transform import Apply, Fields, Transform, each_changed
from headwater.pipeline.transforms.columns import OFFSET, Staying, batch_of
from headwater.pipeline.transforms.missing_columns import MISSING
from headwater.pipeline.transforms.sql import DIGITS, Sql, queried, schema_of, with_nulls
from headwater.pipeline.transforms.type_widening import Unusual, both, mixes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROW, MARK, MESSAGE, WAS = "headwater row", "headwater mark", "headwater message", "headwater was"
LEAD = (pa.field(ROW, pa.int64()), pa.field(MARK, pa.binary()), pa.field(MESSAGE, pa.binary()), pa.field(OFFSET, pa.int64()))


@dataclass(frozen=True)
class SqlPlan:
    """A value: it travels to Spark's workers."""

    transform: Sql
    fixed: pa.Schema | None  # what the transform's `schema` says
    columns: pa.Schema  # that the expression may mean, in their types; of those that nothing is made of only the names count
    needed: frozenset[str]  # columns whose values something is made of
    made: tuple[str, ...]  # fields that documents get, each by a column behind those of `query`
    was: tuple[str, ...]  # of those, the ones that documents may have already
    stays: frozenset[str] | None  # fields that are left as they are; None: all but `gone`
    gone: frozenset[str]

    @property
    def chooses(self) -> bool:
        """Whether all it does is to leave fields out, for which no value has to be looked at."""
        return not self.made and self.transform.expression.where is None and self.fixed is None

    def leaves(self, name: str) -> bool:
        """Whether a field stays in the documents, as it was or changed."""
        return name in self.made or (name not in self.gone if self.stays is None else name in self.stays)

    def evaluated(self, session: SparkSession, rows: DataFrame) -> DataFrame:
        """The number, mark and message of each row that is left, then the columns `was`, then `made`."""
        with _queried(session, rows, self.transform, self.was) as result:
            shown = [f"c{i}" for i in range(len(result.columns))]
            kept = 3 + len(self.was)
            last = {name: i for i, name in enumerate(result.columns) if i >= kept}  # of columns with one name the last counts
            return result.toDF(*shown).select(*shown[:kept], *(shown[last[name]] for name in self.made))


class Known:
    """Looks at the fields of documents: whether the plan still is the one for them."""

    def __init__(self, plan: SqlPlan) -> None:
        self._plan, self._names = plan, set(plan.columns.names) - {OFFSET}

    def check(self, documents: Iterable[dict[str, Any]]) -> None:
        """Errors: `Unusual` for a field that the expression may mean and the plan has no column of."""
        known = self._names.issuperset
        for data in documents:
            if not known(data):
                for name in data.keys() - self._names:
                    self.leaves(name)

    def leaves(self, name: str) -> bool:
        """`SqlPlan.leaves`, asked for the first time for a name. Errors: as `check`."""
        if name not in self._names:
            if name == OFFSET or self._plan.transform.expression.means(name):
                raise Unusual(f"there is a field {name}", None if name == OFFSET else pa.schema([pa.field(name, pa.null())]))
            self._names.add(name)
        return self._plan.leaves(name)


class SelectedColumns(Transform):
    """In place of an `sql` transform whose plan only leaves fields out: it needs no session, and documents are not taken apart for it.

    Applying it raises `Unusual` for documents that the plan is not for.
    """

    def __init__(self, plan: SqlPlan) -> None:
        self._plan = plan
        self.name, self.keeps_id = plan.transform.name, plan.transform.keeps_id

    def opened(self) -> Apply:
        stay = Staying(Known(self._plan).leaves)

        def apply(messages: Sequence[Message]) -> list[Message | None]:
            return [*each_changed(self, messages, stay)]

        return apply

    def fields(self) -> Fields | None:
        if self.keeps_id:
            return None  # whether it is kept can only be seen on messages
        known = Known(self._plan)

        def leaves(name: str) -> bool:
            try:
                return known.leaves(name)
            except Unusual as other:  # whoever reads text lets such documents come as messages, and hears of it there
                raise msgspec.DecodeError(other.reason) from other

        return Staying(leaves)


def types_of(transform: Sql, samples: Sequence[Sequence[Message]], known: pa.Schema | None, *, fixed: pa.Schema | None) -> pa.Schema | None:
    """The columns of the samples, and of what is `known`, that the expression may mean; None where there are no common types.

    `fixed`: what the transform's `schema` says.
    """
    text = transform.expression
    schema: pa.Schema | None = pa.schema([])
    for messages in samples:
        batch = batch_of(messages, schema=fixed, digits=DIGITS, wanted=text.named, named=text.left_out)
        schema = None if schema is None else both(schema, batch.schema.remove(0))
    if schema is None or known is None:
        return schema
    wide = both(schema, known)
    return schema if wide is None or mixes(wide, schema) else wide


def planned(transform: Sql, session: SparkSession, columns: pa.Schema) -> SqlPlan | None:
    """The plan for documents of these columns; None where Spark refuses the expression, or looks at more than one row for a row."""
    from pyspark.errors import PySparkException

    text = transform.expression
    if not text.prunes or text.means("headwater") or OFFSET in columns.names:
        return None
    lacking: list[str] = []
    MISSING.had(transform.name, (column.name for column in columns))
    try:
        return with_nulls(
            transform, lacking, lambda: _plan(transform, session, pa.schema([*columns, *(pa.field(name, pa.null()) for name in lacking)]))
        )
    except PySparkException:
        return None


def _plan(transform: Sql, session: SparkSession, columns: pa.Schema) -> SqlPlan | None:
    with _queried(session, empty_rows(session, columns), transform) as result:
        seen = _seen(result._jdf.queryExecution().analyzed())
        unnamed = any("__autoGeneratedAlias" in field.metadata for field in result.schema)
    if seen is None or unnamed:
        return None
    inputs, out, used = seen
    last = {name: number for number, name in out[3:]}
    left = {name for name, number in last.items() if inputs.get(number) == name}
    made = tuple(name for name in last if name not in left)
    needed = {inputs[number] for number in used if number in inputs} | {inputs[last[name]] for name in made if last[name] in inputs}
    names, stay = frozenset(columns.names), transform.expression.stay
    was = tuple(name for name in made if name in names)
    return SqlPlan(
        transform=transform,
        fixed=schema_of(transform),
        columns=columns,
        needed=frozenset((needed | set(was)) & names),
        made=made,
        was=was,
        stays=frozenset(left) if stay == "none" else None,
        gone=names - left - set(made) if stay == "others" else frozenset(),
    )


def empty_rows(session: SparkSession, columns: pa.Schema) -> DataFrame:
    """A table like those that tasks give to the query, without rows."""
    return session.createDataFrame(pa.schema([*LEAD, *columns]).empty_table())


def _queried(session: SparkSession, rows: DataFrame, transform: Sql, was: Sequence[str] = ()) -> AbstractContextManager[DataFrame]:
    lead = [*map(_quoted, (ROW, MARK, MESSAGE)), *(f"{_quoted(name)} AS `{WAS} {i}`" for i, name in enumerate(was))]
    return queried(session, rows, transform.expression, lead, passes=f"{_quoted(MARK)} IS NOT NULL OR ")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _seen(plan: Any) -> tuple[dict[int, str], list[tuple[int, str]], set[int]] | None:
    """The numbers and names of what goes in and of what comes out, and the numbers of all that is used to make something.

    None where there is more to the query than columns of one row and a condition on it: a window, a sum, `explode`, chance.
    """
    out = [(attribute.exprId().id(), attribute.name()) for attribute in _each(plan.output())]
    used: set[int] = set()
    if plan.subqueriesAll().size():
        return None
    while plan.nodeName() != "SubqueryAlias":
        if plan.nodeName() not in ("Project", "Filter") or not plan.deterministic():
            return None
        for expression in _each(plan.projectList()) if plan.nodeName() == "Project" else [plan.condition()]:
            if expression.getClass().getSimpleName() != "AttributeReference":
                used |= {each.exprId().id() for each in _each(expression.references().toSeq())}
        plan = plan.children().apply(0)
    return {attribute.exprId().id(): attribute.name() for attribute in _each(plan.output())}, out, used


def _each(sequence: Any) -> list[Any]:
    return [sequence.apply(i) for i in range(sequence.size())]
