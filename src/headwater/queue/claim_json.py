"""The JSON of claimed rows: what workers are sent most, written in few steps for each row.

Field by field it is what `headwater.queue.answers.RowsClaimed` is. Rows that anything is peculiar of are written as all others are.
"""

from __future__ import annotations

import binascii
from functools import lru_cache

import msgspec

from headwater.queue.json_form import claim_fields, show_date
from headwater.queue.row import BINARY
from headwater.queue.values import Claimed, ClaimedRow

_encode = msgspec.json.Encoder(decimal_format="number").encode
_OWN = ("id", "key", "data", "insertion_date", "process_date", "expiration_date", "token")  # what each row has of its own
_Common = tuple[int, int, int, int, int, str, str]


def encode_claimed(claimed: Claimed) -> bytes:
    """The body of the answer to a claim."""
    known: _Common | None = None
    fields = b""
    parts: list[bytes] = []
    for claim in claimed.claims:
        row = claim.row
        key = row.key
        if row.failures or row.lane or row.error or row.schedule or not key.isascii():
            parts.append(_encode(claim_fields(claim)))
            continue
        common = (
            row.priority, row.start_processing_date, row.timeout_counter, row.attempts, claim.lease_until, row.worker, row.group,
        )  # fmt: skip
        if common != known:
            known, fields = common, _common_fields(claim)
        dates = _dates(row.insertion_date, row.process_date, row.expiration_date)
        data = b'{"$binary":"%b"}' % binascii.b2a_base64(row.data, newline=False) if row.form == BINARY else row.data
        text = key.decode()
        parts.append(
            b'{"id":%d,"key":%b,"data":%b,%b,%b,"token":"%b"}' % (row.id, _encode(text), data, dates, fields, claim.token.encode())
        )
    return b'{"claims":[%b],"stale":%b}' % (b",".join(parts), _encode(claimed.stale))


@lru_cache(maxsize=4096)  # rows that were put together have the same dates
def _dates(insertion: int, process: int, expiration: int) -> bytes:
    fields = {"insertion_date": show_date(insertion) or "", "process_date": show_date(process) or ""}
    return _encode(fields | {"expiration_date": show_date(expiration)})[1:-1]


def _common_fields(claim: ClaimedRow) -> bytes:
    """The fields that the rows of one claim mostly have in common."""
    return _encode({name: value for name, value in claim_fields(claim).items() if name not in _OWN})[1:-1]
