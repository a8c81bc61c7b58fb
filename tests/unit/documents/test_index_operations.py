"""The operations on indexes and views."""

from __future__ import annotations

from typing import get_args

from headwater.documents.index_operations import INDEXING, VIEWS
from headwater.wire.operation import Role
from headwater.wire.request import shape_of


def test_whoever_changes_what_queries_cost_is_an_operator_and_may_look_first() -> None:
    for operation in (*INDEXING, *VIEWS):
        if operation.changes:
            assert operation.role is Role.OPERATOR
            assert "dry_run" in shape_of(operation).query


def test_lists_are_cut_by_fields_that_their_rows_have() -> None:
    for operation in (*INDEXING, *VIEWS):
        if operation.paging is not None:
            [row] = get_args(operation.answer)
            assert set(operation.paging.by) <= set(row.__struct_fields__), operation.name
