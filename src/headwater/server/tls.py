"""The server's certificate and key. Checks them before use, and reloads them when their files change."""

from __future__ import annotations

import logging
import ssl
import stat
from pathlib import Path

from headwater.core.errors import BadConfig
from headwater.core.settings import ServerSettings

Stamp = tuple[tuple[int, ...], ...]


class Certificate:
    """`context` is for new connections; open ones keep theirs."""

    def __init__(self, cert: Path, key: Path) -> None:
        """Errors: `BadConfig` for files that cannot be read, do not belong together, or for a key that others on the machine can read."""
        self._cert, self._key = cert, key
        self._stamp = self._stamped()
        self.context = self._loaded()

    @classmethod
    def of(cls, server: ServerSettings) -> Certificate | None:
        """The certificate that the settings name, None without one. Errors: `BadConfig`, also for a certificate without its key."""
        if server.tls_cert is None and server.tls_key is None:
            return None
        if server.tls_cert is None or server.tls_key is None:
            raise BadConfig(
                "A certificate and its key are set together.", hint="Give both: `server.tls_cert` and `server.tls_key` in headwater.toml."
            )
        return cls(server.tls_cert, server.tls_key)

    def renew(self) -> None:
        """Reload changed files. Logs invalid ones once and keeps the old certificate until they change again."""
        stamp = self._stamped()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        logger = logging.getLogger("headwater.server")
        try:
            self.context = self._loaded()
        except BadConfig as error:
            logger.error("the certificate of before stays in use: %s", error)
        else:
            logger.info("the certificate in %s is in use", self._cert)

    def _stamped(self) -> Stamp:
        """What changes when a file is replaced or written, or who may read it; a missing file changes it, too."""
        stamps: list[tuple[int, ...]] = []
        for path in (self._cert, self._key):
            try:
                at = path.stat()
            except OSError:
                stamps.append(())
            else:
                stamps.append((at.st_ino, at.st_size, at.st_mtime_ns, at.st_mode))
        return tuple(stamps)

    def _loaded(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.set_alpn_protocols(["http/1.1"])
        try:
            open_to_all = self._key.stat().st_mode & (stat.S_IROTH | stat.S_IWOTH)
            context.load_cert_chain(self._cert, self._key, password=_no_password)
        except ssl.SSLError as error:
            raise BadConfig(
                f"{self._cert} and {self._key} are no certificate with its key: {error.reason or error}.",
                hint="Name two PEM files: the certificate with the ones between it and its authority, and its key without a password.",
            ) from None
        except OSError as error:
            raise BadConfig(
                f"The certificate {self._cert} or its key {self._key} cannot be read: {error.strerror}.",
                hint="Name two PEM files that this user can read.",
            ) from None
        if open_to_all:
            raise BadConfig(f"Everybody on this machine can read or write the key {self._key}.", hint=f"Run: chmod 600 {self._key}")
        return context


def _no_password() -> str:
    """Prevents OpenSSL's question on the terminal, which nobody would answer."""
    return ""
