from __future__ import annotations

import pytest

from headwater.core.errors import BadInput
from headwater.documents import schema_requests as requests


def test_a_request_names_a_collection() -> None:
    for path in ("shop/catalogue~", "shop/catalogue"):
        assert requests.PutSchema(path=path, body=b"{}").collection() == "shop/catalogue~"
    for path in ("shop/catalogue~/hat", "a b"):
        with pytest.raises(BadInput):
            requests.SchemaRequest(path=path).check()
