from __future__ import annotations

import pytest
from tests.unit.wal.conftest import TOPICS, OpenRegion

from headwater.core.errors import Cancelled
from headwater.log.embedded.log import EmbeddedLog
from headwater.wal.why import pins_of, why

pytestmark = pytest.mark.anyio


async def test_the_table_with_the_oldest_payload_pins_the_log(log: EmbeddedLog, opened: OpenRegion) -> None:
    region = await opened()
    assert why(log, TOPICS, region.look(pins_of)).table is None
    await region.write(9, [b"one", b"two"])
    for _ in range(5):
        await region.write(1, [b"x" * 50])
    await region.write(2, [b"y"])
    assert region.look(lambda meta: [pin.table for pin in pins_of(meta).tables]) == [9, 1, 2]
    await region.mark_delete_up_to(1, 5)
    found = why(log, TOPICS, region.look(pins_of))
    record = log.read_at(TOPICS.data, 0, [0])[0]
    assert record is not None
    assert (found.table, found.entries) == (9, 6)
    assert found.bytes == 6 * 26 + (5 + 2 * 4 + 6) + 5 * 51
    assert found.since is not None
    assert found.since == found.tables[0].since
    assert [(one.table, one.offset, one.sequence, one.live) for one in found.tables] == [(9, 0, 1, 2), (2, 6, 1, 1)]
    assert found.advice[0].endswith("`headwater wal mark wal/7 9 2`.")
    assert found.advice[1] == "Or copy its 2 live payloads to the end: `headwater wal move wal/7 9`."
    await region.move(9)
    assert why(log, TOPICS, region.look(pins_of)).table == 2


async def test_it_ends_between_two_batches_where_nobody_waits(log: EmbeddedLog, opened: OpenRegion) -> None:
    region = await opened()
    await region.write(9, [b"one"])

    def given_up() -> None:
        raise Cancelled("Nobody waits for it any more.", hint="")

    with pytest.raises(Cancelled):
        why(log, TOPICS, region.look(pins_of), given_up)
