"""Whether a run is still there. One that was killed could not say that it has ended."""

from __future__ import annotations

import os
import socket

from headwater.pipeline.offsets.state import RunInfo


def lives(run: RunInfo | None) -> bool:
    """Whether the run goes on. Of a run on this machine the process is looked for; of another machine's its own word has to do."""
    if run is None or run.state != "running":
        return False
    host, _, process = run.process.rpartition(":")
    if host != socket.gethostname() or not process.isdigit():
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is there, and somebody else's
        return True
    return True
