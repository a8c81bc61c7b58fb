from __future__ import annotations

from headwater.documents import schema_requests as requests
from headwater.documents.operations import DOCUMENTS
from headwater.documents.schema_operations import SCHEMA_PUT, SCHEMAS
from headwater.wire.operation import Role


def test_who_may_change_a_schema() -> None:
    assert set(SCHEMAS) <= set(DOCUMENTS.operations)
    assert {one.name: one.role for one in SCHEMAS} == {
        "schema_get": Role.READER,
        "schema_put": Role.OPERATOR,
        "schema_delete": Role.OPERATOR,
    }


def test_a_schema_travels_as_it_is() -> None:
    assert SCHEMA_PUT.sends is not None
    assert SCHEMA_PUT.sends(requests.PutSchema(path="c~", body=b'{"type": "object"}')) == ("application/json", b'{"type": "object"}')
