"""Pipelines whose log is in a directory of its own are found from the data directory that they are run with."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.client.local import local_log
from headwater.client.local_backend import LocalBackend
from headwater.client.pipelines import Pipelines
from headwater.core.clock import SystemClock
from headwater.core.errors import HeadwaterError, NotFound
from headwater.core.settings import Settings
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline.operating.log_dirs import FOLDER, address, log_dirs, remember
from headwater.pipeline.operating.performer import PipelinePerformer

pytestmark = pytest.mark.anyio


def test_a_note_is_kept_replaced_and_taken_away(tmp_path: Path) -> None:
    data = tmp_path / "data"
    remember(data, "shop", None)
    assert (log_dirs(data), data.exists()) == ({}, False)  # looking for one makes nothing
    remember(data, "shop", tmp_path / "own")
    remember(data, "shop", tmp_path / "other")
    remember(data, "mill", tmp_path / "own")
    assert log_dirs(data) == {"mill": tmp_path / "own", "shop": tmp_path / "other"}
    remember(data, "shop", None)
    assert log_dirs(data) == {"mill": tmp_path / "own"}
    (data / FOLDER / "mill.json").write_text("{")
    assert log_dirs(data) == {}
    assert log_dirs("") == {}


def test_a_data_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(HeadwaterError, match="data"):
        remember(tmp_path / "data", "shop", tmp_path / "own")


def test_the_list_has_them_and_says_which_are_lost(stopped_shop: Path, tmp_path: Path) -> None:
    main = tmp_path / "main"
    with EmbeddedLog(main) as log:
        log.create_topic("orders")
        remember(main, "shop", stopped_shop)
        remember(main, "mill", tmp_path / "gone")
        mill, shop = PipelinePerformer().every(log)
    assert (shop.pipeline, shop.state, shop.log_dir) == ("shop", "stopped at report", str(stopped_shop))
    assert (mill.pipeline, mill.state, mill.sinks, mill.log_dir) == ("mill", "lost", [], str(tmp_path / "gone"))
    with pytest.raises(NotFound, match="which is not there"):
        address("mill", tmp_path / "gone")
    assert not (tmp_path / "gone").exists()


async def test_the_door_and_the_server_ask_them_where_they_are(stopped_shop: Path, tmp_path: Path) -> None:
    main = tmp_path / "main"
    remember(main, "shop", stopped_shop)
    remember(main, "mill", tmp_path / "gone")
    log = local_log(Settings(), main, SystemClock())
    try:
        await log.open()
        door = Pipelines(LocalBackend(log))
        assert [(one.pipeline, one.state) for one in await door.list()] == [("mill", "lost"), ("shop", "stopped at report")]
        shop = door["shop"]
        assert (await shop.status()).log_dir == str(stopped_shop)
        assert [seen.offset for seen in await shop.messages(13)] == [13, 14, 15]
        assert (await shop.edit(14, set={"price": 1}, why="typo", dry_run=True)).standing == ["report"]
        assert await shop.audit() == []
        await shop.edit(14, set={"price": 1}, why="typo")
        assert [entry.what for entry in await shop.audit()] == ["edit"]
        assert [(one.sink, one.offset) for one in PipelinePerformer().readings(log.now)] == [("archive", 15), ("report", 13)]
        with pytest.raises(NotFound, match="mill keeps its log in"):
            await door["mill"].status()
        with pytest.raises(NotFound, match="mill keeps its log in"):
            await door["mill"].step("sink")
    finally:
        await log.aclose()
