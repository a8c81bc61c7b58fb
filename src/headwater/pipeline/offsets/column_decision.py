"""The decided columns of a sink's tables, as the offset log keeps them. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headwater.pipeline.columns import ColumnNeeds, ColumnRules, TableColumns, Tables, observed, wider
from headwater.pipeline.message import Message

_KEPT = 100  # changes that are told


class ColumnChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A column that was made wider, or that came later than its table: by which message, and when."""

    table: str
    column: str
    after: str
    before: str = ""  # empty: a new column
    offset: int = -1
    at: int = 0


class ColumnDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of a sink's tables, how many messages they were decided by, and what has changed since."""

    tables: Tables = {}
    sampled: int = 0
    changes: tuple[ColumnChange, ...] = ()

    def extended(self, needs: ColumnNeeds, rules: ColumnRules, *, at: int) -> ColumnDecision:
        """The decision with what a batch needs; the same one where all of it is decided already, or cannot be."""
        known = self.tables.get(needs.table)
        table = known or TableColumns(key=needs.key)
        new: list[ColumnChange] = []
        types = dict(table.columns)
        for name, wanted in needs.types.items():
            before = types.get(name)
            if before is None and rules.twin(name, types) is not None:
                continue  # another part has asked for the other one: this part refuses the message when it comes again
            after = rules.settled(wanted if before is None else wider(before, wanted))
            if after is None or after == before or (before is not None and not rules.widens(before, after)):
                continue
            types[name] = after
            if known is not None:
                was, offset = "" if before is None else rules.named(before), needs.offsets[name]
                new.append(ColumnChange(table=needs.table, column=name, before=was, after=rules.named(after), offset=offset, at=at))
        if types == table.columns:
            return self
        tables = {**self.tables, needs.table: msgspec.structs.replace(table, columns=types)}
        return msgspec.structs.replace(self, tables=tables, changes=(*self.changes, *new)[-_KEPT:])


def decided(sample: Iterable[tuple[str, Message]], rules: ColumnRules) -> ColumnDecision:
    """The decision by a sample of messages, each with the place of its table."""
    by_table: dict[str, list[Message]] = {}
    count = 0
    for place, message in sample:
        by_table.setdefault(place, []).append(message)
        count += 1
    tables: Tables = {}
    for place, messages in by_table.items():
        key = next((sampled.id_fields for sampled in messages if sampled.id is not None), ()) if rules.keyed else ()
        tables[place] = TableColumns(columns=observed((sampled.data for sampled in messages), rules, key), key=key)
    return ColumnDecision(tables=tables, sampled=count)
