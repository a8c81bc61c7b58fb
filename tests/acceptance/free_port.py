"""A port for a server that is told which one to take, and takes it again after it was killed."""

from __future__ import annotations

from random import Random

from tools.services import ports


def free_port() -> int:
    """A free port of 127.0.0.1 from those that the system gives to no connection: other tests open thousands of them meanwhile."""
    return next(port for port in Random().sample(ports.OTHERS, 500) if ports.free(port))
