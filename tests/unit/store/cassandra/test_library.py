"""What the driver's errors mean."""

from __future__ import annotations

import pytest

from headwater.core.errors import BadInput, Denied, HeadwaterError, OutcomeUnknown, Timeout, Unavailable, Unreachable
from headwater.store.cassandra.library import explained, explaining

cassandra = pytest.importorskip("cassandra")
from cassandra.cluster import NoHostAvailable  # noqa: E402
from cassandra.protocol import SyntaxException  # noqa: E402

READ, WRITE = "select a from b", "insert into b (a) values (1)"


@pytest.mark.parametrize(
    ("error", "statement", "kind"),
    [
        (cassandra.OperationTimedOut(), READ, Timeout),
        (cassandra.OperationTimedOut(), WRITE, OutcomeUnknown),
        (cassandra.WriteTimeout("late", write_type=0), WRITE, OutcomeUnknown),
        (cassandra.WriteFailure("failed", write_type=0), WRITE, OutcomeUnknown),
        (cassandra.ReadTimeout("late"), READ, Timeout),
        (cassandra.Unavailable("few"), WRITE, Unavailable),
        (cassandra.InvalidRequest("no such table"), READ, BadInput),
        (SyntaxException(code=0x2000, message="no statement", info=None), READ, BadInput),
        (cassandra.Unauthorized("no"), READ, Denied),
        (NoHostAvailable("none", {}), READ, Unreachable),
        (NoHostAvailable("none", {"a": cassandra.AuthenticationFailed("who")}), READ, Denied),
        (NoHostAvailable("none", {"a": cassandra.OperationTimedOut()}), WRITE, OutcomeUnknown),
        (NoHostAvailable("none", {"a": cassandra.Unavailable("few")}), WRITE, Unavailable),
    ],
    ids=lambda value: getattr(value, "__name__", None) or type(value).__name__,
)
def test_an_error_says_what_is_known_of_the_write(error: Exception, statement: str, kind: type[HeadwaterError]) -> None:
    with pytest.raises(kind, match="here") as caught, explaining("here", statement):
        raise error
    assert type(caught.value) is kind
    assert type(explained(error, "here", statement)) is kind
