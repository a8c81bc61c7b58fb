"""The package and its door."""

from __future__ import annotations

import headwater


def test_the_package_shows_what_users_need_and_nothing_else() -> None:
    assert [name for name in dir(headwater) if not name.startswith("__")] == sorted(headwater.__all__)
