from __future__ import annotations

import pytest
from tests.unit.journal.ground import TOPIC, Ground, appended
from tests.unit.journal.test_base import BaseGround

from headwater.core.errors import LogGap
from headwater.journal.base_copy import restore_base


def test_a_copy_holds_what_its_base_holds_however_often_it_is_restored(ground: Ground) -> None:
    based = BaseGround(ground)
    copy = ground.store.partition(TOPIC, 0, based.topic.generation)
    assert copy is not None
    with pytest.raises(LogGap):
        restore_base(based.bases, ground.log, based.topic, copy)
    based.write()
    before = based.digest()
    ground.append(appended("z", 1))
    based.replicate()
    for _ in range(2):
        restore_base(based.bases, ground.log, based.topic, copy)
        assert based.digest() == before
