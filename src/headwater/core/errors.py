"""Every error that headwater raises, in one tree.

HeadwaterError
 ├ BadInput       400  exit 5    the request cannot be performed as written; nothing changed
 │  ├ BadBounds   422
 │  ├ BadConfig        exit 2
 │  ├ BadMethod   405
 │  ├ BadType     415
 │  ├ KeyReused   422  an idempotency key was given to another request before
 │  ├ MissingKey  422  a record without a key could go to several partitions
 │  ├ NewerFormat      a later headwater wrote it
 │  ├ Rejected    422  a sink or transform refuses one message
 │  ├ TooLarge    413
 │  │  └ HeadTooLarge 431
 │  ├ TooSlow     408  the client took too long to send its request
 │  └ Unsupported      this engine does not offer it
 │     └ UnknownEvent  an event of a type or version that the program does not know
 ├ NotFound       404  exit 3
 │  ├ Erased      410  the key that opened it was destroyed on purpose
 │  ├ RegionNotFound
 │  ├ UnknownAdaptor
 │  ├ UnknownJournal   there is no topic of journals of this name
 │  ├ UnknownPipeline
 │  ├ UnknownQueue
 │  ├ UnknownSink
 │  ├ UnknownTable     of a region
 │  ├ UnknownTopic
 │  ├ UnknownPartition
 │  └ OffsetGone  410
 ├ Conflict       409  exit 4    does not fit the current state; nothing changed
 │  ├ AlreadyExists
 │  ├ Fenced
 │  ├ NotOwner    421
 │  ├ OwnedTopic       the topic belongs to a part, whose own commands change it
 │  ├ StaleClaim       the lease of the claim has ended, or its row is done
 │  ├ WrongEngine      the directory belongs to the other engine
 │  └ WrongExpected 412  the journal has another last number than the caller expected
 ├ Unavailable    503  exit 6    try again, perhaps after doing what the hint says
 │  ├ Busy             the server has reached a limit
 │  ├ Cancelled        stopped on request before it was done
 │  ├ Closed
 │  ├ DiskFull    507
 │  ├ OutcomeUnknown   the write may or may not be there
 │  ├ Paused           the queue gives out no rows
 │  ├ ReadOnly
 │  ├ Timeout     504
 │  └ Unreachable
 │     └ Untrusted     its certificate is not trusted
 ├ Damaged        500  exit 7    names file, offset and the command that shows it
 │  ├ LogGap           the log begins behind what a store has copied of it
 │  ├ MetaLost         no snapshot of a region is whole, and its log no longer begins at 0
 │  ├ Undecryptable    the key of an encrypted payload is missing, or does not open it
 │  └ UnreadableRecord  a record of a journal's topic cannot be decoded
 ├ Denied         401  exit 5    the token is missing or unknown
 │  └ Forbidden   403           the token does not allow this
 ├ Differs             exit 8    two things that must be equal are not
 ├ Stopped        422  exit 9    a sink has stopped at a message that it refuses
 └ TaskFailed     500  exit 1    code that ran inside a Spark task raised

Each error carries `code` (the same word in HTTP problems and in `--json`), `status`, `exit_code`, and `hint`: the next thing to type.
"""

from __future__ import annotations

from typing import ClassVar


class HeadwaterError(Exception):
    """The root: catch it to catch everything that headwater raises on purpose."""

    status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    code: ClassVar[str] = "headwater-error"
    """The error's stable name in HTTP problems and JSON output: `UnknownTopic` is `unknown-topic`, unless its class says otherwise."""

    def __init_subclass__(cls, *, code: str = "") -> None:
        name = cls.__name__
        cls.code = code or "".join(f"-{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(name))

    def __str__(self) -> str:
        return f"{self.message} {self.hint}" if self.hint else self.message


class BadInput(HeadwaterError):
    """The request cannot be performed as written. Nothing has changed."""

    status = 400
    exit_code = 5


class BadBounds(BadInput):
    """Offsets outside of what the partition holds, or in the wrong order."""

    status = 422


class BadConfig(BadInput):
    """A setting is unknown or has an invalid value."""

    exit_code = 2


class BadMethod(BadInput):
    """The address exists, but not with this method."""

    status = 405


class BadType(BadInput):
    """The server does not read bodies of this type."""

    status = 415


class KeyReused(BadInput):
    """The idempotency key was given to another request before."""

    status = 422


class MissingKey(BadInput):
    """A record has neither a key nor a partition, and its topic has several partitions."""

    status = 422


class NewerFormat(BadInput):
    """A later headwater wrote the directory, in a format that this one does not know."""


class Rejected(BadInput):
    """A sink or transform refuses the message at `offset`. `before_taken`: the sink has durably taken all before it in its batch;
    `untouched`: it has written nothing of the batch."""

    status = 422

    def __init__(
        self, message: str, *, offset: int = -1, before_taken: bool = False, untouched: bool = False, trace: str = "", hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.offset, self.before_taken, self.untouched, self.trace = offset, before_taken, untouched, trace


class TooLarge(BadInput):
    """A record, batch or request exceeds its limit."""

    status = 413


class HeadTooLarge(TooLarge):
    """The address and headers of a request exceed their limit."""

    status = 431


class TooSlow(BadInput):
    """The client took too long to send its request."""

    status = 408


class Unsupported(BadInput):
    """This engine does not offer the operation."""


class UnknownEvent(Unsupported):
    """An event of a journal has a type or a version that the program does not know; the message names both, and the journal."""


class NotFound(HeadwaterError):
    """The named thing does not exist. The request has not created it."""

    status = 404
    exit_code = 3


class Erased(NotFound):
    """The journal was erased: the key of its events was destroyed, and nobody can read them any more."""

    status = 410


class UnknownAdaptor(NotFound):
    """No adaptor of this name is installed."""


class UnknownJournal(NotFound):
    """There is no topic of journals of this name."""


class UnknownPipeline(NotFound):
    """No pipeline of this name has run here."""


class UnknownQueue(NotFound):
    """No queue of this name. Nothing creates one but `create`."""


class UnknownSink(NotFound):
    """The pipeline has no sink of this name."""


class UnknownTopic(NotFound):
    """No topic of this name."""


class UnknownPartition(NotFound):
    """The topic has fewer partitions."""


class RegionNotFound(NotFound):
    """There is no such region in the namespace. Nothing creates one but `create`."""


class UnknownTable(NotFound):
    """The region has no such table: it was never written, or it was dropped."""


class OffsetGone(NotFound):
    """The offset lies below the partition's start: it was deleted."""

    status = 410


class Conflict(HeadwaterError):
    """The request does not fit the current state, often because another process was first. Nothing has changed."""

    status = 409
    exit_code = 4


class AlreadyExists(Conflict):
    """It exists already, with other settings."""


class Fenced(Conflict):
    """Another Writer has claimed the partition. This call acknowledged nothing and deleted nothing."""


class NotOwner(Conflict):
    """Another process owns the partition. `address` is where it serves, or empty. The door sends the request there by itself."""

    status = 421

    def __init__(self, message: str, *, address: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.address = address


class OwnedTopic(Conflict):
    """The topic belongs to a part of headwater, and only that part changes it; the hint names its command. Everybody may read it."""


class StaleClaim(Conflict):
    """The claim holds its row no longer: its lease has ended, or the row is done, released or given up. The row stays as it is."""


class WrongEngine(Conflict):
    """The directory's log belongs to another engine than the configured one."""


class WrongExpected(Conflict):
    """The last event of the journal has another number than the caller expected."""

    status = 412


class Unavailable(HeadwaterError):
    """Not possible now. The hint says what to do before trying again."""

    status = 503
    exit_code = 6


class Busy(Unavailable):
    """The server has reached its limit of connections, streams or jobs. Ask again after the time in Retry-After."""


class Cancelled(Unavailable):
    """Stopped on request before its end. Durable changes stay."""


class Closed(Unavailable):
    """Used after close."""


class DiskFull(Unavailable):
    """The disk is full: nothing was appended. Reads go on; appends succeed again once there is space."""

    status = 507


class OutcomeUnknown(Unavailable):
    """The write may or may not be there: read before writing again."""


class Paused(Unavailable):
    """The queue is paused: it takes rows and gives none out."""


class ReadOnly(Unavailable):
    """This process cannot write to the directory."""


class Timeout(Unavailable):
    """No answer within the time allowed."""

    status = 504


class Unreachable(Unavailable):
    """A configured server does not answer."""


class Untrusted(Unreachable):
    """The server's certificate is not trusted. Nothing was sent to it."""


class Damaged(HeadwaterError):
    """Stored bytes are not what was written. The message names the file and the offset; nothing is returned in their place."""

    exit_code = 7


class LogGap(Damaged):
    """The log begins behind what a store has copied of it: records between are lost to the store."""


class MetaLost(Damaged):
    """No snapshot of a region can be read, and its log no longer begins at 0: what its tables have flushed is not known."""


class Undecryptable(Damaged):
    """An encrypted payload cannot be opened: its key is not in the key store, its master key is missing, or its bytes were changed."""


class UnreadableRecord(Damaged):
    """A record of a journal's topic cannot be decoded. `offset`: of the record."""

    def __init__(self, message: str, *, hint: str = "", offset: int = -1) -> None:
        super().__init__(message, hint=hint)
        self.offset = offset


class Denied(HeadwaterError):
    """The token is missing or unknown."""

    status = 401
    exit_code = 5


class Forbidden(Denied):
    """The caller's token, or its origin, does not allow this."""

    status = 403


class Differs(HeadwaterError):
    """Two things that must be equal differ; the message shows the first difference."""

    exit_code = 8


class Stopped(HeadwaterError):
    """A sink has stopped at a message that it refuses; the message text names it."""

    status = 422
    exit_code = 9


class TaskFailed(HeadwaterError):
    """Code inside a Spark task raised; the message names the range and ends with the task's traceback."""
