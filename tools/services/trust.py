"""Which authorities Java's downloads trust: those that Python trusts here.

A Java runtime brings its own list of public authorities and looks at nothing else. Where a network has its own authority, people have told
OpenSSL and pip about it; this file tells Java too, by writing a trust store from the same certificates.
"""

from __future__ import annotations

import hashlib
import os
import ssl
import struct
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

BUNDLES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
SYSTEM_STORES = (Path("/etc/ssl/certs/java/cacerts"), Path("/etc/pki/java/cacerts"))


def stores(cache: Path, env: Mapping[str, str]) -> list[Path | None]:
    """Trust stores to try, in this order; None is Java's own."""
    paths: list[Path | None] = []
    if certificates := trusted(env):
        paths.append(written(certificates, cache))
    return [*paths, *(path for path in SYSTEM_STORES if path.exists()), None]


def trusted(env: Mapping[str, str]) -> list[bytes]:
    """The certificates that OpenSSL and pip trust on this machine, in DER."""
    context = ssl.create_default_context()
    for name in BUNDLES:
        bundle = Path(env.get(name) or os.devnull)
        if bundle.is_file():
            try:
                context.load_verify_locations(cafile=bundle)
            except ssl.SSLError:
                continue  # an empty or foreign file: the others may do
    return sorted(set(context.get_ca_certs(binary_form=True)))


def written(certificates: Iterable[bytes], cache: Path) -> Path:
    """A trust store file with these certificates, made once per set."""
    content = encoded(certificates)
    path = cache / "trust" / f"{hashlib.sha256(content).hexdigest()[:16]}.jks"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(content)
        os.replace(file.name, path)  # whole or absent, also when two processes write it at once
    return path


def encoded(certificates: Iterable[bytes], *, password: str = "changeit") -> bytes:
    """A Java key store (format JKS, version 2) that holds trusted certificates only."""
    entries = [_entry(f"authority-{number}", der) for number, der in enumerate(certificates)]
    body = struct.pack(">III", 0xFEEDFEED, 2, len(entries)) + b"".join(entries)
    return body + hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()


def _entry(alias: str, der: bytes) -> bytes:
    return struct.pack(">I", 2) + _text(alias) + struct.pack(">Q", 0) + _text("X.509") + struct.pack(">I", len(der)) + der


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack(">H", len(data)) + data
