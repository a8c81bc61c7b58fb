"""Pipelines as their files say them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from headwater.core.errors import BadConfig
from headwater.core.units import Duration, Size
from headwater.pipeline.adaptor import About
from headwater.pipeline.definition import Pipeline
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.policy import DeadLetter, Retry, Stop
from headwater.pipeline.sink_adaptor import CanWrite, Delivery, Part, SinkWriter
from headwater.pipeline.source_adaptor import CanCopy, CopyPlan, Piece, Slice
from headwater.pipeline.transforms import omit, pick


class Box(CanCopy, CanWrite, frozen=True, kw_only=True):
    """An adaptor for both sides that is never opened."""

    kind: ClassVar[str] = "box"
    about: ClassVar[About] = About(summary="A box.", namespace="a box", sample="box()")
    delivery: ClassVar[Delivery] = "at least once"
    uri: str

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        raise NotImplementedError

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        raise NotImplementedError

    def writer(self, part: Part) -> SinkWriter:
        raise NotImplementedError


class Inbox(CanCopy, frozen=True, kw_only=True):
    """A source alone."""

    kind: ClassVar[str] = "inbox"
    about: ClassVar[About] = About(summary="An inbox.", namespace="an inbox", sample="inbox()")

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        raise NotImplementedError

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        raise NotImplementedError


class Outbox(CanWrite, frozen=True, kw_only=True):
    """A sink alone."""

    kind: ClassVar[str] = "outbox"
    about: ClassVar[About] = About(summary="An outbox.", namespace="an outbox", sample="outbox()")
    delivery: ClassVar[Delivery] = "at least once"

    def writer(self, part: Part) -> SinkWriter:
        raise NotImplementedError


BOX = Box(uri="${BOX_URI}")


def test_a_pipeline_with_branches_and_a_chain() -> None:
    p = Pipeline("orders", slices=4, max_log="1GiB")
    rows = p.source("shop", BOX, namespace=r"/^public\./")
    clean = rows.transform(omit("card"), namespace="orders")
    below = clean.save("search", BOX, batch=500, parallelism=2, timeout="5s", on_error=DeadLetter())
    below.transform(pick("_id")).save("ids", BOX)
    rows.save("archive", BOX, namespace="orders")
    assert p.complete() is p
    assert p.tree() == [
        r"shop: box(${BOX_URI})  [^public\.]",
        "└ search: omit(card) → box(${BOX_URI})  [.*]",
        "   └ ids: pick(_id) → box(${BOX_URI})  [.*]",
        "└ archive: box(${BOX_URI})  [orders]",
    ]
    search, ids, archive = (p.sinks[name] for name in ("search", "ids", "archive"))
    assert [str(one) for one in ids.transforms] == ["omit(card)", "pick(_id)"]
    assert [one.namespaces.expression for one in ids.transforms] == ["orders", ".*"]
    assert (search.after, ids.after, archive.after) == (None, "search", None)
    assert archive.transforms == ()
    assert (search.options.batch, search.options.parallelism, search.options.timeout) == (500, 2, Duration(5000))
    assert archive.options.timeout == Duration(30_000)
    assert isinstance(archive.options.on_error, Stop)
    assert (p.options.slices, p.options.max_log, p.options.flush, p.options.stop_grace) == (
        4,
        Size(1 << 30),
        Duration(1000),
        Duration(30_000),
    )


def test_narrowing_a_transform_to_a_namespace_leaves_the_transform_as_it_was() -> None:
    one = omit("card")
    Pipeline("p").source("s", BOX).transform(one, namespace="orders")
    assert one.namespaces.everything


@pytest.mark.parametrize("name", ["log_dir", "xlog_dir"])
def test_the_logs_place_has_two_names(name: str) -> None:
    assert Pipeline("p", **{name: "elsewhere"}).options.log_dir == "elsewhere"  # type: ignore[arg-type]
    with pytest.raises(BadConfig, match="two names of one option"):
        Pipeline("p", log_dir="a", xlog_dir="b")


def rows() -> Any:
    return Pipeline("p").source("s", BOX)


def twice() -> None:
    branch = rows()
    branch.save("a", BOX)
    branch.save("a", BOX)


def two_sources() -> None:
    p = Pipeline("p")
    p.source("a", BOX)
    p.source("b", BOX)


def without_a_sink() -> None:
    p = Pipeline("p")
    p.source("a", BOX)
    p.complete()


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        (lambda: rows().save(BOX), "A sink needs a name before its adaptor.", "a restart finds its positions by the name"),
        (lambda: Pipeline("p").source(BOX), "A source needs a name before its adaptor.", "Name it"),  # type: ignore[arg-type]
        (lambda: rows().save("a"), "None cannot be written to.", "adaptors that are sinks"),
        (lambda: rows().save("a", "file.json"), "'file.json' cannot be written to.", "adaptors that are sinks"),
        (lambda: rows().save("a", Inbox()), "inbox cannot be written to.", "adaptors that are sinks"),
        (lambda: Pipeline("p").source("a", Outbox()), "outbox cannot be read from.", "adaptors that are sources"),
        (lambda: Pipeline("p").source("a"), "None cannot be read from.", "adaptors that are sources"),
        (twice, "Pipeline p has two sinks named a.", "rename one"),
        (two_sources, "Pipeline p has two sources.", "a pipeline for each"),
        (lambda: Pipeline("p").complete(), "Pipeline p has no source.", "p.source"),
        (without_a_sink, "Pipeline p has no sink.", "rows.save"),
        (lambda: Pipeline(""), "'' is no name for a pipeline.", "letters"),
        (lambda: Pipeline("a/b"), "'a/b' is no name for a pipeline.", "letters"),
        (lambda: Pipeline("x" * 101), "is no name for a pipeline.", "100"),
        (lambda: Pipeline(5), "5 is no name for a pipeline.", "letters"),  # type: ignore[arg-type]
        (lambda: Pipeline("orders-offsets"), "A pipeline's name cannot end in -offsets.", "Choose another"),
        (lambda: Pipeline("p", on_eror="stop"), "Pipeline has no option on_eror.", "on_error"),  # type: ignore[call-arg]
        (lambda: Pipeline("p", on_error="retry"), "on_error cannot be 'retry' for a pipeline.", "stop_all"),  # type: ignore[arg-type]
        (lambda: Pipeline("p", flush="1"), "flush cannot be '1'.", "unit"),
        (lambda: Pipeline("p", flush=1), "flush cannot be 1.", "unit"),  # type: ignore[arg-type]
        (lambda: Pipeline("p", segment="0B"), "segment cannot be '0B'.", "more"),
        (lambda: Pipeline("p", slices=-1), "slices cannot be -1.", "whole number from 0"),
        (lambda: Pipeline("p", slices=True), "slices cannot be True.", "whole number from 0"),
        (lambda: rows().save("a", BOX, batch=0), "batch cannot be 0.", "whole number from 1"),
        (lambda: rows().save("a", BOX, timeout="0s"), "timeout cannot be '0s'.", "more"),
        (lambda: rows().save("a", BOX, batchsize=5), "save has no option batchsize.", "batch"),
        (lambda: rows().save("a", BOX, namespace="("), "The namespace '(' is no regular expression", "Python"),
        (lambda: rows().save("a", BOX, on_error="dead_letter"), "on_error cannot be 'dead_letter' for a sink.", "DeadLetter()"),
        (lambda: rows().save("a", BOX, on_error=Retry), "for a sink.", "Retry(3"),
        (lambda: rows().transform("omit"), "'omit' is no transform.", "omit"),
        (lambda: rows().transform(omit), "is no transform.", "omit"),
        (lambda: rows().transform(omit("a"), namespaces="x"), "transform has no option namespaces.", "Did you mean namespace?"),
    ],
)
def test_what_is_wrong_is_said_with_the_next_step(call: Any, message: str, hint: str) -> None:
    with pytest.raises(BadConfig) as problem:
        call()
    assert message in problem.value.message
    assert hint in problem.value.hint


def test_a_sink_cannot_be_the_file_that_is_read() -> None:
    from headwater.pipeline.adaptors import file

    rows = Pipeline("copy").source("in", file("orders.jsonl"))
    with pytest.raises(BadConfig, match="would write to the file that is read"):
        rows.save("out", file("orders.jsonl"))
    Pipeline("filter").source("in", file("-")).save("out", file("-"))  # standard input and output are two


def test_the_sinks_below_a_sink() -> None:
    pipeline = Pipeline("p")
    first = pipeline.source("in", BOX).save("a", BOX)
    first.save("b", BOX).save("c", BOX)
    first.save("d", BOX)
    assert [pipeline.below(name) for name in "abcd"] == [["b", "c", "d"], ["c"], [], []]
