"""Whether Spark's tasks see the files that their run sees: on a cluster they run on other machines.

A sink of files leaves a note where it writes when the run begins; a task that does not find it must write nothing. Before the first
batch tasks leave a file there, too, which the run must find: a worker may have the folder read-only, or a copy of it. A source's files
have an identity in the plan, and the log its topics.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence

from headwater.core.errors import BadConfig, HeadwaterError, Unavailable
from headwater.log.address import LogAddress
from headwater.pipeline.adaptor import Adaptor
from headwater.pipeline.running.work import SinkWork
from headwater.pipeline.sink_adaptor import Part

_SHARE = "a file system that every worker mounts at the same path"


def check_seen(work: SinkWork, part: Part) -> None:
    """Called in a task, before it writes. Errors: `BadConfig` where it does not see the sink's files as the run does."""
    if not work.sink.adaptor.seen(part):
        raise BadConfig(
            f"Sink {work.sink.name} writes to {work.sink.adaptor}, and a task of Spark on {socket.gethostname()} sees other files there "
            "than the run: nothing was written.",
            hint=f"Put it on {_SHARE}, or write to S3 or to a database.",
        )


def probe(work: SinkWork, part: Part) -> tuple[str, str]:
    """Called in a task, before any task writes: its machine, and the file that it has left for `check_probes`.

    Errors: `BadConfig` where it cannot write there, or as `check_seen`.
    """
    check_seen(work, part)
    host = socket.gethostname()
    try:
        return host, work.sink.adaptor.probe(part)
    except Unavailable as error:
        raise BadConfig(
            f"Sink {work.sink.name} writes to {work.sink.adaptor}, and a task of Spark on {host} cannot write there: {error.message} "
            "Nothing was written.",
            hint=f"Put it on {_SHARE}, for writing, or write to S3 or to a database.",
        ) from error


def check_probes(work: SinkWork, part: Part, probes: Sequence[tuple[str, str]]) -> None:
    """Called by the run with what `probe` has returned in tasks. Errors: `BadConfig` where it does not see a file that a task has left."""
    unseen = [host for host, name in probes if name and not work.sink.adaptor.probed(part, name)]
    if unseen:
        raise BadConfig(
            f"Sink {work.sink.name} writes to {work.sink.adaptor}, and the run does not see what a task of Spark on {unseen[0]} writes "
            "there: nothing was written.",
            hint=f"Put it on {_SHARE}, or write to S3 or to a database.",
        )


def unseen_source(name: str, adaptor: Adaptor, error: HeadwaterError) -> BadConfig:
    """The error of a source whose files tasks see otherwise than the run does."""
    return BadConfig(
        f"Source {name} reads {adaptor}, and the tasks of Spark see other files there than the run. {error.message}",
        hint=f"Put them on {_SHARE}, or read from S3 or from a database.",
    )


def unseen_log(address: LogAddress, error: HeadwaterError) -> BadConfig:
    """The error of an embedded log whose directory tasks see otherwise than the run does."""
    return BadConfig(
        f"The log is in {address.path}, and the tasks of Spark see other files there than the run. {error.message}",
        hint=f'Put the data directory on {_SHARE}, or set log.engine = "kafka".',
    )
