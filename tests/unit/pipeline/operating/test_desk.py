"""The operator's desk: pages of messages, and what is asked of a pipeline whose run is not known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.core.errors import BadInput, NotFound
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline.offsets.state import RunInfo
from headwater.pipeline.operating import answers, desk
from headwater.pipeline.operating.desk import Desk, everything


@pytest.fixture
def log(stopped_shop: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(stopped_shop) as log:
        yield log


def pages(shop: Desk, **asked: object) -> list[list[int]]:
    found, first = [], None
    while True:
        page = shop.messages(first, **asked)  # type: ignore[arg-type]
        found.append([seen.offset for seen in page.items])
        if page.next is None:
            return found
        first = int(page.next)


def test_a_page_ends_at_its_limit_of_messages(log: EmbeddedLog) -> None:
    assert pages(Desk(log, "shop"), limit=7) == [list(range(7)), list(range(7, 14)), [14, 15]]
    assert pages(Desk(log, "shop"), limit=16) == [list(range(16))]


def test_a_page_ends_where_enough_bytes_are_together(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "_PAGE", 60)
    found = pages(Desk(log, "shop"), limit=100)
    assert [offset for page in found for offset in page] == list(range(16))
    assert max(map(len, found)) == 3


def test_a_page_is_given_after_so_many_messages_were_looked_at(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "_WINDOW", 2)
    monkeypatch.setattr(desk, "_WINDOWS", 3)
    assert pages(Desk(log, "shop"), namespace="nothing") == [[], [], []]
    assert pages(Desk(log, "shop"), namespace="returns") == [[0, 2, 4], [6, 8, 10], [12]]


def test_a_log_without_messages_has_an_empty_page(log: EmbeddedLog) -> None:
    log.create_topic("pipeline-new-offsets")
    log.create_topic("pipeline-new")
    assert Desk(log, "new").messages() == answers.Messages(items=[], next=None, oldest=0, current=-1)
    assert [(one.pipeline, one.state) for one in everything(log)] == [("new", "new"), ("shop", "stopped at report")]


def test_a_message_that_is_unreadable_is_shown_as_text(log: EmbeddedLog) -> None:
    from headwater.log.record import Record

    log.claim("pipeline-shop", 0).append([Record(b"orders", b'{"_id": ', headers=(("headwater.unreadable", b"line 17 is cut"),))])
    (seen,) = Desk(log, "shop").messages(16).items
    assert seen.data == '{"_id": '


def test_the_folder_of_a_run_that_is_gone_is_told(log: EmbeddedLog, tmp_path: Path) -> None:
    shop = Desk(log, "shop")
    assert shop.folder() is None
    run = RunInfo(epoch=1, id="r", began=1, state="done", folder=str(tmp_path / "gone"))
    shop.operator.control.change(lambda state: [("run", run)])
    with pytest.raises(NotFound, match="gone"):
        shop.folder()
    (tmp_path / "gone").mkdir()
    assert shop.folder() == tmp_path / "gone"
    with pytest.raises(BadInput, match="defined is not known"):
        shop.step("report")


@pytest.mark.parametrize(("ms", "text"), [(0, None), (1, "1970-01-01T00:00:00.001Z"), (1 << 62, None)])
def test_moments_are_texts(ms: int, text: str | None) -> None:
    assert answers.moment(ms) == text
