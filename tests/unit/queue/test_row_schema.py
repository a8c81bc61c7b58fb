from __future__ import annotations

from headwater.queue.json_form import SentRow
from headwater.queue.row_schema import ROWS_CONTENT


def test_the_schema_has_the_fields_of_a_row() -> None:
    row, _ = ROWS_CONTENT["application/json"]["anyOf"]
    assert set(row["properties"]) == set(SentRow.__struct_fields__)
