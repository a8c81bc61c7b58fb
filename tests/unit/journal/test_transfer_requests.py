from __future__ import annotations

import pytest

from headwater.core.errors import BadInput
from headwater.journal.transfer_requests import ExportJournals, ImportLines


def test_ids_are_a_list_of_ids() -> None:
    request = ExportJournals(topic="bank", ids='["a,b","c"]')
    request.check()
    assert request.wanted_ids() == {"a,b", "c"}
    for bad in ("[1]", '[""]'):
        with pytest.raises(BadInput):
            ExportJournals(topic="bank", ids=bad).check()


def test_lines_are_counted_from_1() -> None:
    ImportLines(topic="bank").check()
    for bad in (0, -1, True, "1"):
        with pytest.raises(BadInput, match="no number of a line"):
            ImportLines(topic="bank", first_line=bad).check()  # type: ignore[arg-type]
