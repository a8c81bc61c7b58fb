"""Ports for servers: the well-known one when it is free, otherwise another."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable

from headwater.core.errors import Unavailable

# Below the range from which the system takes ports for outgoing connections: a broker that was killed must find its port free again.
OTHERS = range(14_000, 32_000)


def free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a server could listen there now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: a port with only dying connections is free
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
        return True


def choose(wanted: Iterable[int], *, chance: random.Random, avoid: frozenset[int] = frozenset()) -> list[int]:
    """One free port for each wanted one, all different: itself where it is free, otherwise another from `OTHERS`."""
    chosen: list[int] = []
    for port in wanted:
        taken = {*chosen, *avoid}
        if port in taken or not free(port):
            port = next((other for other in chance.sample(OTHERS, 500) if other not in taken and free(other)), 0)
            if not port:
                raise Unavailable("No free port was found on 127.0.0.1.", hint="See what listens: `ss -ltn`.")
        chosen.append(port)
    return chosen
