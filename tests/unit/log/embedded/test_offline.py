"""Taking a partition that nobody has open."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from headwater.core.errors import Conflict, Damaged
from headwater.core.files import Files
from headwater.log.embedded.offline import offline, stored_page
from headwater.log.record import Record


def test_it_is_refused_while_somebody_has_it_open(ground: Any) -> None:
    log = ground.fill(2)
    with pytest.raises(Conflict, match="t 0 is in use"), offline(ground.folder, name="t 0", files=Files(), dry_run=False):
        pass
    log.close()
    with offline(ground.folder, name="t 0", files=Files(), dry_run=False):
        pass
    assert ground.open().append("t", 0, [Record(b"k", b"v")])[0] == 2  # it is given back


def test_a_dry_run_makes_no_file(ground: Any) -> None:
    ground.fill(2).close()
    for name in ("lock", "live"):
        (ground.folder / name).unlink()
    with offline(ground.folder, name="t 0", files=Files(), dry_run=True):
        assert not (ground.folder / "lock").exists()
    with offline(ground.folder, name="t 0", files=Files(), dry_run=False):
        assert (ground.folder / "lock").exists()


def test_the_page_is_read_where_there_is_a_whole_one(ground: Any) -> None:
    ground.fill(2).close()
    page = stored_page(Files(), ground.folder)
    assert page is not None
    assert page.durable_offset == 2
    path = ground.folder / "commit"
    path.write_bytes(path.read_bytes()[:100])
    assert stored_page(Files(), ground.folder) is None
    path.unlink()
    assert stored_page(Files(), ground.folder) is None
    shutil.rmtree(ground.folder)
    with pytest.raises(Damaged), offline(ground.folder, name="t 0", files=Files(), dry_run=True):
        pass
