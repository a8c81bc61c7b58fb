from __future__ import annotations

from typing import Any

import pytest

from headwater.adaptors.documents.adaptor import DocumentsAdaptor
from headwater.adaptors.documents.sink import DocumentsSink, Write, distinct
from headwater.core.errors import Fenced, Rejected
from headwater.documents.requests import BatchLine
from headwater.pipeline.adaptors import documents
from headwater.pipeline.location import Location
from headwater.pipeline.message import Message, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.sink_adaptor import Batch, Part

ME = ("shop#1", "copy")


def message(offset: int, op: Op = Op.INSERT, namespace: str = "things", **data: Any) -> Message:
    return Message(namespace, data, op, 1_700_000_000_000, offset=offset)


def write(adaptor: DocumentsAdaptor, *messages: Message, fence: Any = None) -> None:
    start, end = messages[0].offset, messages[-1].offset + 1
    writer = adaptor.writer(Part(pipeline=ME[0], sink=ME[1], start=start, end=end, epoch=1))
    if fence is not None:
        writer.fence = fence
    try:
        writer.write(Batch(start=start, end=end, messages=messages))
    finally:
        writer.close()


def history(shop: Any, collection: str) -> list[tuple[str, str]]:
    return [(one.method, one.path.rpartition("/")[2]) for one in shop[collection].history()]


def test_changes_of_a_document_keep_their_order(data: str, shop: Any) -> None:
    sink = documents("a~", address=data)
    write(
        sink,
        message(0, _id=1, n=1),
        message(1, _id=2),
        message(2, Op.UPDATE, _id=1, n=2),
        message(3, Op.DELETE, _id=1),
        message(4, _id=1, n=3),
    )
    assert history(shop, "a~") == [("put", "1"), ("put", "2"), ("put", "1"), ("delete", "1"), ("put", "1")]
    assert list(sink.rows("things")) == [{"_id": 1, "id": "1", "n": 3}, {"_id": 2, "id": "2"}]


def test_what_comes_again_leaves_the_same_state(data: str, shop: Any) -> None:
    """A delete that found nothing comes again while the put behind it is there already."""
    sink = documents("a~", address=data)
    given = [message(0, Op.DELETE, _id=1), message(1, _id=1, n=1), message(2, Op.NOOP, _id=9)]
    for _ in range(2):
        write(sink, *given)
        assert list(sink.rows("things")) == [{"_id": 1, "id": "1", "n": 1}]


def test_a_refused_document_is_named_and_nothing_behind_it_of_that_document_is_written(data: str, shop: Any) -> None:
    shop["a~"].schema.put({"properties": {"n": {"type": "integer"}}})
    sink = documents("a~", address=data)
    with pytest.raises(Rejected, match="/n") as refused:
        write(sink, message(10, _id=1, n=1), message(11, _id=2, n="x"), message(12, _id=2, n=2), message(13, _id=3, n=3))
    assert (refused.value.offset, refused.value.before_taken) == (11, True)
    assert [one["id"] for one in sink.rows("things")] == ["1"]
    with pytest.raises(Rejected, match="may have") as refused:
        write(sink, message(14, _id=4), message(15, _id="b c"), message(16, _id=5))
    assert (refused.value.offset, refused.value.before_taken) == (15, True)
    assert [one["id"] for one in sink.rows("things")] == ["1", "4"]


def test_a_view_takes_no_message(data: str, shop: Any) -> None:
    shop.views.put("dear~", "a~/{*}")
    with pytest.raises(Rejected, match="is a view") as refused:
        write(documents("dear~", address=data), message(3, _id=1))
    assert refused.value.offset == 3


def test_documents_below_a_prefix(data: str, shop: Any) -> None:
    sink = documents("copy/{namespace}", address=data)
    write(sink, message(0, namespace="shop/", _id="eu/open", yes=True), message(1, namespace="shop/hats~", _id=1))
    assert shop["copy/shop/eu/open"].get().body == {"yes": True}
    assert list(sink.rows("shop/")) == [{"_id": "eu/open", "yes": True}]
    assert [one["id"] for one in sink.rows("shop/hats~")] == ["1"]
    write(sink, message(2, Op.COMMAND, namespace="shop/hats~", command="truncate"), message(3, Op.DELETE, namespace="shop/", _id="eu/open"))
    assert list(sink.rows("shop/hats~")) == list(sink.rows("shop/")) == []


def test_an_older_run_writes_nothing(data: str, shop: Any) -> None:
    def fence() -> None:
        raise Fenced("A newer run has begun.", hint="")

    sink = documents("a~", address=data)
    with pytest.raises(Fenced):
        write(sink, message(0, _id=1), fence=fence)
    assert list(sink.rows("things")) == []


def test_a_large_batch_is_sent_in_portions(data: str, shop: Any) -> None:
    sink = documents("a~", address=data)
    write(sink, *(message(n, _id=n, text="x" * 2000) for n in range(1200)))
    assert len(list(sink.rows("things"))) == 1200


def test_a_sink_that_writes_what_is_read_is_noticed(data: str, shop: Any) -> None:
    shop["a~"].put("1", {})
    (place,) = documents("a~", address=data).locations(Namespaces())
    (below,) = documents("b/", address=data).locations(Namespaces())
    (all,) = documents("/", address=data).locations(Namespaces())
    overlaps = {
        path: [one.name for one in DocumentsSink(documents(path, address=data)).overlaps([place, below, all])]
        for path in ("a~", "{namespace}", "b/{namespace}", "b/c~", "c/", "c~")
    }
    assert overlaps == {
        "a~": ["a~", "a~"],
        "{namespace}": ["a~", "b/", ""],
        "b/{namespace}": ["b/", "b/"],
        "b/c~": ["b/c~", "b/c~"],
        "c/": ["c/"],
        "c~": ["c~"],
    }
    assert DocumentsSink(documents("a~", address=f"{data}-none")).overlaps([place, Location("else", "a~")]) == []


def test_what_will_be_made_is_told_and_a_directory_is_made(tmp_path: Any) -> None:
    sink = documents("a~", address=str(tmp_path / "new"))
    assert "will be made" in sink.check("sink", Namespaces())[0]
    assert sink.begin(*ME, 1) is None
    assert sink.check("sink", Namespaces()) == [f"documents a~ at {tmp_path / 'new'}"]
    assert list(sink.rows("things")) == []


def test_writes_are_cut_where_a_document_comes_again() -> None:
    def line(offset: int, path: str) -> Write:
        return Write(offset, BatchLine(method="delete", path=path))

    every = [line(0, "a~/1"), line(1, "a~/2"), line(2, "a~/1"), line(3, "b"), line(4, "a~"), line(5, "a~/3"), line(6, "c")]
    assert [[one.offset for one in some] for some in distinct(every)] == [[0, 1], [2, 3], [4], [5, 6]]
    assert list(distinct([])) == []
