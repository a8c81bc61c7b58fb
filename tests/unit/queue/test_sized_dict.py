from __future__ import annotations

import pytest

from headwater.queue.sized_dict import SizedDict, text_size


def test_it_counts_what_is_set_replaced_deleted_and_popped() -> None:
    sized: SizedDict[int, bytes] = SizedDict(len)
    sized[1], sized[2] = b"abc", b"de"
    assert sized.bytes == 5
    sized[1] = b"a"
    assert sized.bytes == 3
    del sized[2]
    assert (sized.pop(1), sized.pop(1, None), sized.bytes, sized) == (b"a", None, 0, {})
    with pytest.raises(KeyError):
        sized.pop(1)
    with pytest.raises(KeyError):
        del sized[1]


def test_a_text_has_the_bytes_of_its_utf_8() -> None:
    assert (text_size(""), text_size("abc"), text_size("äb"), text_size("\ud800")) == (0, 3, 3, 1)
