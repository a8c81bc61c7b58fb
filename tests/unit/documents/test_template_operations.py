from __future__ import annotations

from headwater.documents.operations import DOCUMENTS
from headwater.documents.template_operations import TEMPLATE_PUT, TEMPLATING
from headwater.documents.template_requests import PutTemplate, TemplateNew
from headwater.wire.operation import Role
from headwater.wire.request import shape_of


def test_whoever_changes_what_writes_cost_is_an_operator_and_may_look_first() -> None:
    assert set(TEMPLATING) <= set(DOCUMENTS.operations)
    for operation in TEMPLATING:
        if operation.changes:
            assert operation.role is Role.OPERATOR
            assert "dry_run" in shape_of(operation).query


def test_a_template_travels_in_camel_case() -> None:
    assert TEMPLATE_PUT.sends is not None
    request = PutTemplate(index="i", new=TemplateNew(template_uri="shop/*~"))
    assert TEMPLATE_PUT.sends(request) == ("application/json", b'{"templateUri":"shop/*~"}')
