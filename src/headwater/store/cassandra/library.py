"""The Cassandra driver: imports it at its first use, and translates its errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headwater.core.errors import BadConfig, BadInput, Denied, HeadwaterError, OutcomeUnknown, Timeout, Unavailable, Unreachable


def library() -> Any:
    """The module `cassandra`. Errors: `BadConfig` when it is not installed."""
    try:
        import cassandra
        import cassandra.auth
        import cassandra.cluster
        import cassandra.policies
        import cassandra.protocol
        import cassandra.query
    except ImportError as error:
        raise BadConfig(
            f"The Cassandra driver is not installed: {error}.", hint="Install it: `pip install 'headwater[cassandra]'`."
        ) from error
    return cassandra


def connection_class() -> Any:
    """The connection on libev: the one on asyncio dies in a process that was forked."""
    try:
        from cassandra.io.libevreactor import LibevConnection
    except ImportError as error:
        raise BadConfig(f"The Cassandra driver lacks libev: {error}.", hint="Install a wheel of cassandra-driver, which has it.") from error
    return LibevConnection


@contextmanager
def explaining(where: str, statement: str = "") -> Iterator[None]:
    """Raise an error of the driver inside as a headwater error."""
    driver = library()
    try:
        yield
    except (driver.DriverException, driver.cluster.NoHostAvailable, driver.OperationTimedOut, driver.protocol.ErrorMessage) as error:
        raise explained(error, where, statement) from error


def explained(error: Exception, where: str, statement: str) -> HeadwaterError:
    """The headwater error for an error of the driver. A write without an answer is `OutcomeUnknown`."""
    driver = library()
    reads = statement.lstrip()[:6].lower() == "select"
    match error:
        case driver.cluster.NoHostAvailable():
            inner = list(getattr(error, "errors", {}).values())
            for cause in inner:
                if isinstance(cause, driver.AuthenticationFailed):
                    return _denied(cause, where)
                if isinstance(cause, driver.RequestExecutionException | driver.OperationTimedOut):
                    return explained(cause, where, statement)
            return Unreachable(f"No Cassandra node of {where} answers: {error}.", hint="Check `cassandra.contact_points` and the nodes.")
        case driver.AuthenticationFailed() | driver.Unauthorized():
            return _denied(error, where)
        case driver.OperationTimedOut() | driver.ReadTimeout() if reads:
            return Timeout(f"Cassandra at {where} has not answered in time: {error}.", hint="Try again; see `cassandra.timeout`.")
        case driver.OperationTimedOut() | driver.WriteTimeout() | driver.WriteFailure() | driver.ReadTimeout():
            return OutcomeUnknown(
                f"Cassandra at {where} has not confirmed the write: {error}.", hint="Read what is there before you write it again."
            )
        case driver.InvalidRequest() | driver.protocol.SyntaxException() | driver.AlreadyExists():
            return BadInput(f"Cassandra refuses it: {error}.", hint=f"The keyspace is at {where}.")
        case _:
            return Unavailable(f"Cassandra at {where} cannot do it now: {error}.", hint="See that enough nodes are up, then try again.")


def _denied(error: Exception, where: str) -> Denied:
    return Denied(f"Cassandra at {where} refuses the user: {error}.", hint="Set `cassandra.username` and `cassandra.password`.")
