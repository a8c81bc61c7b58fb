"""The listening socket of a server."""

from __future__ import annotations

import errno
import ipaddress
import resource
import socket

from headwater.core.errors import BadConfig, Conflict, HeadwaterError

_FILES = 4096  # file descriptors for the log and whatever else is open


def listen(host: str, port: int, *, tokens: bool) -> socket.socket:
    """A listening socket; connections queue up until the server accepts them. Port 0 takes a free one.

    Errors: `BadConfig` for an address that is not of this machine, or that other machines can reach while there is no token file;
    `Conflict` when the port is taken.
    """
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError):
        raise BadConfig(f"{host!r} is no address to listen on.", hint="Use 127.0.0.1, or an address of this machine.") from None
    if not tokens and not all(_loopback(str(address[4][0])) for address in addresses):
        raise BadConfig(
            f"Listening on {host} would let others on the network in, and no token is asked for.",
            hint="Write a token file and name it with --token-file, or listen on 127.0.0.1.",
        )
    family, kind, protocol, _, address = addresses[0]
    sock = socket.socket(family, kind, protocol)  # named, so that asyncio turns Nagle's algorithm off: an event would come 40 ms late
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(2048)
    except OSError as error:
        sock.close()
        raise _explained(error, host, port) from None
    sock.setblocking(False)
    return sock


def descriptors_for(connections: int) -> int:
    """The number of connections for which this process has file descriptors, up to `connections`. Raises the process's limit if it can.

    Reserves some for the files of the log: without them many connections would make appends fail.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return connections
    return min(connections, soft - min(_FILES, soft // 2))


def url_of(sock: socket.socket, *, tls: bool = False) -> str:
    """The address for clients on this machine."""
    host, port = sock.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = "::1" if sock.family == socket.AF_INET6 else "127.0.0.1"
    scheme = "https" if tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def _explained(error: OSError, host: str, port: int) -> HeadwaterError:
    if error.errno == errno.EADDRINUSE:
        return Conflict(
            f"Port {port} on {host} is taken.", hint=f"Use another: make run PORT={port + 1}, or headwater serve --port {port + 1}."
        )
    if error.errno == errno.EACCES:
        return BadConfig(f"This user may not listen on port {port}.", hint="Use a port above 1023, such as --port 8420.")
    return BadConfig(f"{host}:{port} cannot be listened on: {error.strerror}.", hint="Use 127.0.0.1, or an address of this machine.")
