"""What an `sql` transform is that only leaves fields out: it needs no Spark session, and documents need not be taken apart for it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headwater.pipeline.message import Message
from headwater.pipeline.transform import Apply, Fields, Transform
from headwater.pipeline.transforms.changing import each_changed
from headwater.pipeline.transforms.columns import Staying
from headwater.pipeline.transforms.sql_plan import Known, SqlPlan
from headwater.pipeline.transforms.type_widening import Unusual


class Projection(Transform):
    """In place of the `sql` transform that a plan was made of. Applying it raises `Unusual` for documents that the plan is not for."""

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
