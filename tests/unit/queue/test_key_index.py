"""Long keys are found by their hashes; two of one hash are told apart by their rows."""

from __future__ import annotations

import pytest

from headwater.queue.body import make_body
from headwater.queue.key_index import WHOLE_KEY, KeyIndex
from headwater.queue.records import INSERT

SHORT, LONG, OTHER, THIRD = b"s" * WHOLE_KEY, b"l" * (WHOLE_KEY + 1), b"o" * 1000, b"t" * 1024
KEYS = [SHORT, LONG, OTHER, THIRD]
BODIES = [make_body(INSERT, slot, 0, 1, 0, 5, 5, 0, key, b"data") for slot, key in enumerate(KEYS)]


def test_of_a_long_key_the_index_holds_a_hash_alone() -> None:
    keys = KeyIndex(BODIES)
    keys.fill(KEYS, range(4))
    assert [keys.find(key) for key in KEYS] == [0, 1, 2, 3]
    assert [name for name in keys if isinstance(name, bytes)] == [SHORT]
    assert all(isinstance(name, int) and name < 1 << 128 for name in keys if name != SHORT)
    assert keys.find(b"l" * WHOLE_KEY) is keys.find(b"l" * (WHOLE_KEY + 2)) is None


@pytest.mark.parametrize("gone", [LONG, OTHER, THIRD])
def test_keys_of_one_hash_have_their_own_rows_whichever_goes_first(gone: bytes) -> None:
    keys = KeyIndex(BODIES, lambda key: 7)
    for slot, key in enumerate(KEYS):
        keys.add(key, slot)
    assert [keys.find(key) for key in KEYS] == [0, 1, 2, 3]
    keys.leave(gone)
    assert [keys.find(key) for key in KEYS] == [None if key == gone else slot for slot, key in enumerate(KEYS)]
    keys.add(gone, KEYS.index(gone))
    assert [keys.find(key) for key in KEYS] == [0, 1, 2, 3]
    for key in KEYS:
        keys.leave(key)
    assert not keys
