"""The interfaces of sources: what an adaptor lacks is told, what it has is called."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from headwater.core.errors import Unsupported
from headwater.pipeline.adaptor import About
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.source_adaptor import CanCopy, CanTail, CopyPlan, Piece, Slice, SourceAdaptor


class Counted(CanCopy, CanTail, frozen=True, kw_only=True):
    kind: ClassVar[str] = "counted"
    about: ClassVar[About] = About(summary="", namespace="", sample="")
    source_class: ClassVar[str] = f"{__name__}:CountedSource"
    uri: str = "x"


class CountedSource(SourceAdaptor[Counted]):
    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        return CopyPlan(identity={"uri": self.adaptor.uri}, slices=(Slice("n", {"slices": slices}),))

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        yield Piece(position=1, values=[b"{}"])


class Bare(CanCopy, CanTail, frozen=True, kw_only=True):
    kind: ClassVar[str] = "bare"
    about: ClassVar[About] = About(summary="", namespace="", sample="")


@pytest.fixture(autouse=True)
def _found_by_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counted, "_source", lambda self: CountedSource(self))


def test_what_its_class_has_is_called() -> None:
    adaptor = Counted()
    plan = adaptor.plan(Namespaces(), 3)
    assert plan.slices[0].spec == {"slices": 3}
    assert [piece.position for piece in adaptor.read(plan.slices[0], None)] == [1]
    assert not plan.repeats
    assert adaptor.plan(Namespaces(), 1).repeats  # one slice was asked for: its order is kept
    assert adaptor.same(plan, Namespaces())
    assert adaptor.unit(plan.slices[0]) == ("n", None)


def test_what_it_lacks_is_told() -> None:
    for call in (
        lambda: Bare().plan(Namespaces(), 1),
        lambda: Bare().read(Slice("n", {}), None),
        lambda: Bare().follow(None, Namespaces(), lambda: True),
    ):
        with pytest.raises(Unsupported, match="SourceAdaptor has no"):
            call()
