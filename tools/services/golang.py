"""Programs written in Go, built here once and kept in the cache folder.

Go itself fetches the modules, from wherever this machine fetches them, and writes into the program which it was built from and their
digests. Those are compared with what we know; anything else is refused.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from headwater.core.errors import Damaged, Unreachable
from tools.services.place import Place, locked
from tools.services.server import plain_env

ATTEMPTS = 3
_KEPT = ("GO", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_", "XDG_CACHE_HOME")


def have(place: Place, module: str, version: str, package: str, digest: str) -> Path:
    """The program, built when it is not there. `digest` is that of the modules that it is made of: see `modules`.

    Safe when several processes ask at once; whole or absent. Errors: `Unreachable` where there is no Go or it cannot fetch the modules,
    `Damaged` for other modules than those we know.
    """
    name = package.rpartition("/")[2]
    program = place.cache / "go" / f"{name}-{version}" / name
    if not program.exists():
        with locked(place.cache / "go" / f"{name}.lock", place.say, f"another process is building {name}, waiting for it"):
            if not program.exists():
                _build(place, program, f"{module}/{package}@{version}", name, digest)
    return program


def modules(program: Path) -> str:
    """The digest of what a program was built from: each module's name, version and own digest."""
    said = _run(["go", "version", "-m", str(program)]).splitlines()
    parts = sorted(line.strip() for line in said if line.strip().startswith(("mod\t", "dep\t", "=>\t")))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _build(place: Place, program: Path, what: str, name: str, digest: str) -> None:
    if shutil.which("go") is None:
        raise Unreachable(f"{name} is built with Go, and there is no Go here.", hint="Install Go.")
    started = time.monotonic()
    place.say(f"building {name} with Go: this takes some minutes once")
    with tempfile.TemporaryDirectory(dir=program.parent.parent, prefix=f"{name}-new-") as folder:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                _run(["go", "install", what], GOBIN=folder, CGO_ENABLED="0")
            except subprocess.CalledProcessError as problem:
                said = (problem.stderr or "").strip()[-2000:]
                if attempt == ATTEMPTS:
                    raise Unreachable(f"{name} could not be built: {said}", hint="See whether Go can fetch modules here.") from problem
                place.say(f"that failed, trying again ({attempt} of {ATTEMPTS - 1})")
                place.wait(2.0**attempt)
            else:
                break
        built = Path(folder) / name
        if (found := modules(built)) != digest:
            raise Damaged(f"{name} was built from modules that we do not know: {found}.", hint="Compare `go version -m` with a good one.")
        program.parent.mkdir(exist_ok=True)
        built.rename(program)
    place.say(f"built it in {time.monotonic() - started:.0f} s: {program}")


def _run(words: list[str], **more: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name.upper().startswith(_KEPT)}
    return subprocess.run(
        words, env=plain_env(**(kept | more)), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    ).stdout
