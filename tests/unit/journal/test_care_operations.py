from __future__ import annotations

from headwater.journal.care_operations import CARE, VERIFY
from headwater.journal.operations import JOURNAL
from headwater.wire.operation import Role


def test_they_belong_to_the_part() -> None:
    assert set(CARE) <= set(JOURNAL.operations)
    assert len({operation.name for operation in JOURNAL.operations}) == len(JOURNAL.operations)


def test_what_changes_something_needs_an_operator_and_has_a_dry_run() -> None:
    changing = [operation for operation in CARE if operation.changes]
    assert {operation.name for operation in changing} == {"base", "rebuild", "expire", "dead_quarantine", "dead_drop", "dead_retry"}
    for operation in changing:
        assert operation.role is Role.OPERATOR
        assert "dry_run" in operation.request.__struct_fields__


def test_long_work_is_a_job() -> None:
    assert VERIFY.kind == "job"


def test_their_paths_are_none_of_a_journal() -> None:
    assert all(operation.path.startswith("/replication/{topic}/") for operation in CARE)
