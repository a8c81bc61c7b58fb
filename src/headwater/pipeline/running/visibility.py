"""Whether Spark's tasks see the files that their run sees: on a cluster they run on other machines.

A sink of files leaves a note where it writes when the run begins; a task that does not find it must write nothing. A source's files have
an identity in the plan, and the log its topics.
"""

from __future__ import annotations

import socket

from headwater.core.errors import BadConfig, HeadwaterError
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
