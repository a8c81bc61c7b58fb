from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.unit.journal.partitions import Ground

from headwater.core.errors import Differs
from headwater.journal.store import PartitionView
from headwater.journal.view_block import ViewBlock


@contextmanager
def of_another_topic() -> Iterator[PartitionView]:
    raise Differs("It is of another topic.")
    yield


def test_a_copy_of_another_topic_is_none_where_the_log_holds_everything(tmp_path: Path) -> None:
    with ViewBlock(of_another_topic(), whole=lambda: True) as view:
        assert view is None
    with pytest.raises(Differs), ViewBlock(of_another_topic(), whole=lambda: False):
        pass
    ground = Ground(tmp_path)
    ground.append("a", 1)
    ground.copy()
    copy = ground.partition.copy()
    assert copy is not None
    with ViewBlock(copy.view(), whole=lambda: True) as view:
        assert view is not None
        assert view.pointer.offset == 0
    ground.close()
