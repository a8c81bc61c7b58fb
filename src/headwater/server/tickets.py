"""Tickets: a stream of one address may be opened with one for a while, without a token.

A browser's `EventSource` sends no headers. Whoever has a token asks for a ticket, and gives the page that instead: it opens nothing but
streams of this one address, and ends by itself. A ticket is sealed with its token's digest, so that every worker and every server with the
same token file knows it, nobody keeps it, and it ends with its token.
"""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64encode
from typing import Final, NamedTuple

from headwater.server.caller import segments_of

ADDRESS: Final = "/tickets"
LONGEST: Final = 3600  # seconds
_TICKET = re.compile(r"([0-9]{1,15})\.[A-Za-z0-9_-]{43}")
_PARAMETER = re.compile(rb"(?:^|&)ticket=([^&]*)")


class TicketedQuery(NamedTuple):
    """A query, and the ticket that was among its parameters; None: there was none."""

    query: bytes
    ticket: str | None


def seal(digest: bytes, raw_path: bytes, until: int) -> str:
    """The ticket for an address until a date in ms, of the holder of the token with this digest."""
    sealed = hmac.digest(digest, repr((until, segments_of(raw_path))).encode(), "sha256")
    return f"{until}.{urlsafe_b64encode(sealed).rstrip(b'=').decode()}"


def is_sealed(ticket: str, digest: bytes, raw_path: bytes, now: int) -> bool:
    """Whether a ticket is for this address, of the holder of this token, and its time is not over. Takes as long for every token."""
    match = _TICKET.fullmatch(ticket)
    if match is None:
        return False
    until = int(match[1])
    return hmac.compare_digest(seal(digest, raw_path, until), ticket) and now < until


def take_ticket(query: bytes) -> TicketedQuery:
    """Take the ticket out of a query. With two of them there is none, and both stay: the check of parameters refuses them."""
    tickets = _PARAMETER.findall(query) if b"ticket=" in query else ()
    if len(tickets) != 1:
        return TicketedQuery(query, None)
    return TicketedQuery(_PARAMETER.sub(b"", query).removeprefix(b"&"), tickets[0].decode("latin-1"))
