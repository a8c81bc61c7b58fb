"""What the clients of all systems have in common: how a missing one is told, whom they trust, what is shown."""

from __future__ import annotations

import re
import socket
import ssl
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from headwater.core.errors import BadConfig
from headwater.pipeline.env import Env

# Source and sinks begin in threads of their own. Two that import modules of one client which need each other could each meet a half of it.
_IMPORTING = threading.RLock()
_USER = re.compile(r"^[^/\s]*:[^/\s]*@")  # of an address whose // was forgotten
_WORDS = re.compile(r"\b(password|passwd|pwd|secret|token)\s*=\s*('(?:[^'\\]|\\.)*'|[^\s;&]+)", re.IGNORECASE)  # as in host=db password=...


@contextmanager
def client_of(system: str, extra: str) -> Iterator[None]:
    """Around the imports of a system's client. Errors: `BadConfig` with the command that installs it."""
    hint = f'Run `pip install "headwater[{extra}]"`.'
    try:
        with _IMPORTING:
            yield
    except ModuleNotFoundError as error:
        raise BadConfig(f"The client for {system} is not installed: there is no module {error.name}.", hint=hint) from None
    except ImportError as error:  # it is there and lacks something: another release of it than ours needs
        raise BadConfig(f"The client for {system} cannot be used: {error}.", hint=hint) from error


class Closing(ABC):
    """Something that is closed at the end of a `with`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Let go of its connections."""


def trusting(ca: str) -> ssl.SSLContext:
    """Settings that trust the authorities in a file. Errors: `BadConfig`."""
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise BadConfig(f"The authorities in {ca} cannot be read: {error_text(error)}.", hint="Give a PEM file.") from error


def shown(address: object) -> str:
    """An address without what may be secret: user, password, and what follows a question mark. Anything else, a path say, as it is."""
    text = _WORDS.sub(r"\1=***", str(address))
    if isinstance(address, Env) or "//" not in text:
        return _USER.sub("", text)
    # Up to the last @, because a password that is not written as it should be may hold one itself.
    return re.sub(r"//.*@", "//", text, flags=re.DOTALL).partition("?")[0]


def error_text(error: BaseException) -> str:
    """What lies at the bottom of a connection's error, in the system's own words: those above it may repeat addresses."""
    seen: list[BaseException] = []
    below: BaseException | None = error
    while below is not None and below not in seen:
        error = below
        seen.append(error)
        inside = (getattr(error, "reason", None), *reversed(error.args), error.__cause__, error.__context__)
        below = next((cause for cause in inside if isinstance(cause, BaseException)), None)
    text = error.strerror if isinstance(error, OSError) and error.strerror else ""
    return re.sub(r"\[\w+: \w+\] |\s*\(_ssl\.c:\d+\)", "", text).rstrip(".") or type(error).__name__


def addresses(host: str) -> list[str]:
    """The addresses that a host's name stands for; the name where it cannot be looked up."""
    try:
        return sorted({str(entry[4][0]) for entry in socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)})
    except OSError:
        return [host]
