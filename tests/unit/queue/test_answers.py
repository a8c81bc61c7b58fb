from __future__ import annotations

import msgspec

from headwater.queue.answers import RowPut, RowsClaimed, RowsPut


def test_an_answer_says_what_there_is_to_say() -> None:
    assert msgspec.json.encode(RowPut(id=1, outcome="merged", process_date=None)) == b'{"id":1,"outcome":"merged","process_date":null}'
    one = msgspec.json.decode(b'{"id":1,"outcome":"merged","process_date":null}', type=RowsPut)
    assert (one.id, one.outcome, one.puts) == (1, "merged", None)
    assert msgspec.json.encode(RowsClaimed()) == b'{"claims":[],"stale":[]}'
