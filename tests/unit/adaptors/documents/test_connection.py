from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headwater.adaptors.documents.connection import DocumentsConnection, looked_up
from headwater.adaptors.queue.connection import SharedDoors
from headwater.core.document_errors import UnfitBody
from headwater.core.errors import Unreachable
from headwater.documents.requests import BatchLine
from headwater.pipeline.adaptors import documents


def test_it_reads_page_by_page_and_writes_line_by_line(data: str, shop: Any) -> None:

    with DocumentsConnection(documents("a~", address=data)) as connection:
        assert not connection.remote
        lines = [BatchLine(method="put", path=f"a~/{name}", body=msgspec.Raw(b"{}")) for name in "xyz"]
        assert connection.write(lines, 30) == [None, None, None]
        first, second = connection.write([BatchLine(method="put", path="a~/w", body=msgspec.Raw(b"[]")), lines[0]], 30)
        assert (type(first), second) == (UnfitBody, None)
        assert connection.items("a~", "", 2) == [b'{"id":"x"}', b'{"id":"y"}']
        assert connection.items("a~", "y", 2) == [b'{"id":"z"}']
        assert connection.items("none~", "", 2) == []
        shop["b"].put({"n": 1.50})
        assert (connection.document("b"), connection.document("c")) == (b'{"n":1.5}', None)
        assert (list(connection.paths("")), list(connection.paths("", "a~"))) == (["a~", "b"], ["b"])
        connection.check_written("a~")
        with pytest.raises(Unreachable, match="not done within 0 s"):
            connection.write(lines, 0)


def test_a_place_that_is_not_there_is_nobody_s_fault(tmp_path: Any, data: str) -> None:
    assert looked_up(documents("a~", address=str(tmp_path / "none"))) is None
    found = looked_up(documents("a~", address=data))
    assert found is not None
    found.close()
    with pytest.raises(Unreachable):
        DocumentsConnection(documents("a~", address="http://127.0.0.1:9"), doors=SharedDoors(linger=0)).document("b")
