"""Programs out of Debian's packages, unpacked in the cache folder: nothing is installed, and nobody has to be root.

apt itself fetches them, from wherever this machine fetches its packages, and checks them against the signed lists of the distribution.
Versions are not pinned: a distribution keeps only the newest of each.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from headwater.core.errors import Unreachable
from tools.services.place import Place, locked
from tools.services.server import plain_env

ATTEMPTS = 3


def have(place: Place, name: str, packages: Sequence[str]) -> Path:
    """The folder in which these packages, and those they need that this machine lacks, are unpacked. Fetched when it is not there.

    Safe when several processes ask at once; whole or absent. Errors: `Unreachable` where there is no apt or it cannot fetch them.
    """
    folder = place.cache / "debian" / name
    if not folder.exists():
        with locked(folder.with_suffix(".lock"), place.say, f"another process is fetching {name}, waiting for it"):
            if not folder.exists():
                _fetch(place, folder, name, packages)
    return folder


def libraries(folder: Path) -> str:
    """What LD_LIBRARY_PATH has to be for the programs in `folder`."""
    return ":".join(str(path) for path in (*folder.glob("usr/lib/*-linux-gnu*"), *folder.glob("lib/*-linux-gnu*"), folder / "usr/lib"))


def _fetch(place: Place, folder: Path, name: str, packages: Sequence[str]) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise Unreachable(f"{name} comes from Debian's packages, and there is no apt-get here.", hint=f"Install {name} yourself.")
    started = time.monotonic()
    place.say(f"fetching {name} from Debian's packages: {', '.join(packages)}")
    work = folder.with_suffix(".new")
    for attempt in range(1, ATTEMPTS + 1):
        shutil.rmtree(work, ignore_errors=True)
        try:
            _unpack(work, packages)
        except subprocess.CalledProcessError as problem:
            output = (problem.stderr or "").strip()[-2000:]
            if attempt == ATTEMPTS:
                shutil.rmtree(work, ignore_errors=True)
                raise Unreachable(
                    f"{name} could not be had from Debian's packages: {output}", hint=f"Install {name} yourself."
                ) from problem
            place.say(f"that failed, trying again ({attempt} of {ATTEMPTS - 1})")
            place.wait(2.0**attempt)
        else:
            break
    (work / "root").rename(folder)
    shutil.rmtree(work, ignore_errors=True)
    place.say(f"fetched it in {time.monotonic() - started:.0f} s into {folder}")


def _unpack(work: Path, packages: Sequence[str]) -> None:
    lists, cache, debs = work / "lists", work / "cache", work / "debs"
    for path in (lists / "partial", cache / "archives" / "partial", debs):
        path.mkdir(parents=True)
    # Lists of our own: the system's belong to root, may be old, and then name packages that are gone.
    apt = ["apt-get", "-q", "-o", f"Dir::State::lists={lists}", "-o", f"Dir::Cache={cache}", "-o", "Acquire::Retries=3"]
    apt += ["-o", "APT::Sandbox::User=", "-o", "Acquire::http::Timeout=20"]
    _run([*apt, "update"], work)
    planned = _run([*apt, "--simulate", "--no-install-recommends", "install", *packages], work)
    wanted = [f"{match[1]}={match[2]}" for match in re.finditer(r"^Inst (\S+) (?:\[\S+\] )?\((\S+) ", planned, re.MULTILINE)]
    # What is installed in this very version is not planned, but is wanted all the same where it was asked for.
    wanted += [name for name in packages if not any(package.partition("=")[0] == name for package in wanted)]
    _run([*apt, "download", *wanted], debs)
    for deb in sorted(debs.glob("*.deb")):
        _run(["dpkg-deb", "--extract", str(deb), str(work / "root")], work)


def _run(words: Sequence[str], folder: Path) -> str:
    env = plain_env(LC_ALL="C", DEBIAN_FRONTEND="noninteractive")
    return subprocess.run(words, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout
