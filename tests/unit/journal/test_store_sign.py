"""A sign is there while its job runs, and no other store has it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.journal.ground import Ground

from headwater.core.errors import BadConfig
from headwater.journal.store_address import StoreAddress, open_store
from headwater.journal.store_sign import NO_SIGN, check_sign, signed


def test_another_store_lacks_the_sign(ground: Ground, tmp_path: Path) -> None:
    elsewhere = StoreAddress(folder=tmp_path / "elsewhere")
    with signed(ground.store, ground.address, local=False) as sign, open_store(elsewhere) as other:
        check_sign(ground.store, ground.address, sign)
        check_sign(other, elsewhere, NO_SIGN)
        with pytest.raises(BadConfig, match="Share that folder"):
            check_sign(other, elsewhere, sign)
    with pytest.raises(BadConfig):
        check_sign(ground.store, ground.address, sign)
