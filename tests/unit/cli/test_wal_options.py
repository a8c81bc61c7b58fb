from __future__ import annotations

import pytest

from headwater.cli.wal_options import region_named
from headwater.core.errors import BadInput


@pytest.mark.parametrize(
    ("text", "named"), [("7", "wal/7"), ("wal/7", "wal/7"), ("a.b-c/0", "a.b-c/0"), (f"x/{2**64 - 1}", f"x/{2**64 - 1}")]
)
def test_a_bare_number_is_in_the_usual_namespace(text: str, named: str) -> None:
    assert str(region_named(text)) == named


@pytest.mark.parametrize("text", ["", "x", "wal/", "/7", "wal/x", "wal/-1", "-1", "a_b/7", "a/b/7", str(2**64), "٧"])
def test_what_names_no_region_is_told(text: str) -> None:
    with pytest.raises(BadInput):
        region_named(text)
