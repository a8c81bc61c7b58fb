from __future__ import annotations

import msgspec

from headwater.wal import answers


def test_numbers_of_64_bits_come_back_from_json() -> None:
    largest = 2**64 - 1
    entry = answers.ShownEntry(table=largest, sequence=largest, offset=0, payload={"$binary": "AA=="})
    assert msgspec.json.decode(msgspec.json.encode(entry), type=answers.ShownEntry) == entry
    state = answers.TableState(table=largest, last=largest, flushed=largest - 1, live=1, offset=None, watermark=5)
    assert msgspec.json.decode(msgspec.json.encode(state), type=answers.TableState) == state
