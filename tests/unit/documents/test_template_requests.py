from __future__ import annotations

import pytest

from headwater.core.errors import BadInput
from headwater.documents.change import SortField
from headwater.documents.index_requests import HyperStorageIndexSortItem
from headwater.documents.template_requests import DeleteTemplate, PutTemplate, TemplateNew, TemplateRequest


def test_a_template_is_asked_for_as_an_index_is() -> None:
    new = TemplateNew(template_uri="shop/*~", sort_by=(HyperStorageIndexSortItem("b", order="desc"),), filter_by=" b > 1 ")
    made = new.template("i")
    assert (made.id, made.sort_by, made.filter_by) == ("i", (SortField("b", "desc", "text"),), "b > 1")
    with pytest.raises(BadInput):
        TemplateNew(template_uri="shop~").template("i")


@pytest.mark.parametrize("kind", [TemplateRequest, PutTemplate, DeleteTemplate])
def test_its_id_is_that_of_an_index(kind: type[TemplateRequest]) -> None:
    kind(index="by-price").check()
    with pytest.raises(BadInput):
        kind(index="a b").check()
