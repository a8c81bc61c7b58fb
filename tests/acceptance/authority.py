"""A certificate authority of one's own, as `docs/how-to/serve-beyond-this-machine.md` makes it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_NEW = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc")


class Authority:
    """Certificates of one authority, as files in a folder."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("openssl") is None:
            pytest.skip("there is no openssl to make certificates with")
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / "authority.pem"
        self._openssl(*_NEW, "-x509", "-days", "2", "-subj", "/CN=test authority", "-keyout", "authority.key", "-out", "authority.pem")

    def certificate(self, name: str, *, names: str = "IP:127.0.0.1,DNS:localhost") -> tuple[Path, Path]:
        """A certificate for these names, and its key."""
        self._openssl(*_NEW, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        (self._folder / "names").write_text(f"subjectAltName={names}\n")
        signed = ("-CA", "authority.pem", "-CAkey", "authority.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
        self._openssl("x509", "-req", "-in", f"{name}.csr", *signed, "-out", f"{name}.pem")
        return self._folder / f"{name}.pem", self._folder / f"{name}.key"

    def _openssl(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self._folder, check=True, capture_output=True)
