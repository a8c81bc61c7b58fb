"""A Java that starts warm: the classes Spark loads at its start, kept in an archive that is made once and mapped from then on.

Java 25 and newer keep linked classes and profiles (an AOT cache), older ones keep parsed classes (a class-data archive). One run of Spark
with a small job makes both: `python -m headwater.spark.training`. It takes about half a minute, so no session waits for it: the first
session of a machine starts without an archive, and the archive is made after its process has ended.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from headwater.core.errors import Unavailable
from headwater.spark.java import Java

AOT_SINCE = 25  # the first Java that makes an AOT cache in one run
KEPT_DAYS = 30  # an archive is 150 to 200 MB: one that nothing has used for this long is removed
SECONDS = 300
COLLECTOR = "-XX:+UseSerialGC"  # an archive is only good for the collector that it was made with
SPARING = "-XX:TieredStopAtLevel=1"  # compiles quickly, and code that runs half as fast
SILENT = "-Xlog:disable"  # Java reports classes that it cannot keep, and archives that do not fit, on standard output


@dataclass(frozen=True, slots=True)
class Archive:
    """The archive for one Java and one Spark. The file is whole or absent at every moment."""

    path: Path
    aot: bool

    @property
    def usable(self) -> bool:
        return self.path.exists()

    @property
    def wanted(self) -> bool:
        """Not there, and nothing speaks against making it."""
        return not self.usable and not self.failed.exists()

    @property
    def failed(self) -> Path:
        """Holds what went wrong when it was made; while it exists, sessions do not have it made again."""
        return self.path.with_suffix(".failed")

    def options(self) -> list[str]:
        """What to tell Java so that it uses the archive; Java passes over one that does not fit."""
        return [f"-XX:AOTCache={self.path}" if self.aot else f"-XX:SharedArchiveFile={self.path}", SILENT]

    def recording(self, file: Path) -> list[str]:
        """What to tell Java so that it writes the archive to `file` when it ends."""
        return [f"-XX:AOTCacheOutput={file}" if self.aot else f"-XX:ArchiveClassesAtExit={file}", SILENT]

    def reject(self, why: str) -> None:
        """Delete an archive that Spark did not start with, and keep the reason."""
        with contextlib.suppress(OSError):
            self.failed.write_text(why)
            self.path.unlink(missing_ok=True)

    def touch(self) -> None:
        """Note the time of its use."""
        with contextlib.suppress(OSError):
            os.utime(self.path)


def archive_for(java: Java, cache: Path) -> Archive:
    """The archive of this Java with the installed Spark, whether it exists or not."""
    release = java.home / "release"
    spec = find_spec("pyspark")
    jars = Path(spec.origin or "").parent / "jars" if spec else Path()
    marks = [str(java.program.resolve()), str(java.version), version("pyspark"), str(jars), COLLECTOR]
    marks.append(release.read_text() if release.exists() else "")
    marks.append(Path(__file__).with_name("training.py").read_text())  # what was loaded when it was made
    marks += sorted(f"{jar.name} {jar.stat().st_size}" for jar in jars.glob("*.jar"))
    digest = hashlib.sha256("\n".join(marks).encode()).hexdigest()[:16]
    aot = java.version >= AOT_SINCE
    return Archive(cache / "jvm" / f"{digest}.{'aot' if aot else 'jsa'}", aot)


def make(archive: Archive) -> bool:
    """Make the archive, unless another process is making it; True when it is there afterwards.

    Errors: `Unavailable` when it could not be made; the reason is kept beside it.
    """
    folder = archive.path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("a")
    except OSError as problem:
        raise Unavailable(
            f"{folder} cannot be written: {problem.strerror}.", hint="Set HEADWATER_CACHE to a folder that you can write to."
        ) from problem
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return archive.usable
        if archive.usable:
            return True
        sweep(folder, time.time())
        new = folder / f"new-{archive.path.name}"
        output = _train([sys.executable, "-m", "headwater.spark.training", "--record", *archive.recording(new)])
        if not new.exists():
            archive.failed.write_text(output)
            raise Unavailable(
                "Java made no archive for a quicker start; Spark works without it.", hint=f"See {archive.failed}, remove it to try again."
            )
        new.rename(archive.path)
        archive.failed.unlink(missing_ok=True)
        return True


def make_at_exit() -> None:
    """Make the archive in the background once this process has ended: no session waits for it then."""
    atexit.register(_make_in_background)


def _make_in_background() -> None:
    with contextlib.suppress(OSError):
        subprocess.Popen(
            [sys.executable, "-m", "headwater.spark.training", "--background"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def _train(command: Sequence[str]) -> str:
    """Run Spark once for the archive; return what it said."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"It was not ready after {SECONDS} seconds."
    return f"It ended with {done.returncode}.\n{done.stdout}"


def sweep(folder: Path, now: float) -> None:
    """Remove archives that no session has used for long, and the unfinished ones of processes that died."""
    for file in folder.iterdir():
        if file.name.startswith("new-") or (file.suffix in (".aot", ".jsa") and now - file.stat().st_mtime > KEPT_DAYS * 86_400):
            file.unlink(missing_ok=True)
