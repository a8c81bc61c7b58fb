from __future__ import annotations

from headwater.journal.operations import JOURNAL
from headwater.journal.transfer_operations import EXPORT, EXPORT_LINES, IMPORT_LINES, TRANSFER
from headwater.wire.operation import Role


def test_they_belong_to_the_part() -> None:
    assert set(TRANSFER) <= set(JOURNAL.operations)


def test_readers_export_and_operators_import() -> None:
    assert EXPORT.role is EXPORT_LINES.role is Role.READER
    assert EXPORT.path == EXPORT_LINES.path
    assert IMPORT_LINES.role is Role.OPERATOR
    assert "dry_run" in IMPORT_LINES.request.__struct_fields__
