"""Checks of the machine: Python, Java, the disk below the data directory, and Spark."""

from __future__ import annotations

import os
import pickle
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from headwater.cli.finding import Finding
from headwater.core.settings import SparkSettings
from headwater.core.units import rounded_size

WRITES, BLOCK = 200, 4096
TOO_FAST = 5e-6  # seconds: no real disk syncs a block in less
SLOW = 0.01
LEAST_FREE = 1 << 30
IN_MEMORY = frozenset({"tmpfs", "ramfs"})
OVER_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "ceph", "glusterfs", "fuse.glusterfs", "afs"})
SPARK_SECONDS = 180


def python() -> Finding:
    """Report Python's version; too old a version could not have run this."""
    return Finding("python", True, f"Python {platform.python_version()} at {sys.executable}.", facts={"version": platform.python_version()})


def java() -> Finding:
    """Find the Java for Spark. Errors: `Unavailable` with the next step."""
    from headwater.spark.java import find_java

    java_home = find_java()
    sentence = f"Java {java_home.version} from {java_home.origin} at {java_home.home}. {java_home.note}".rstrip()
    return Finding("java", True, sentence, facts={"version": java_home.version, "home": str(java_home.home), "origin": java_home.origin})


def sync(data: Path) -> Finding:
    """Measure how long the disk takes to sync a block: every acknowledgement waits for that."""
    folder = nearest_folder(data)
    kind = file_system(folder)
    seconds = sorted(_syncs(folder))
    middle = statistics.median(seconds)
    facts = {"folder": str(folder), "file_system": kind, "writes": WRITES, "p50_seconds": middle, "per_second": WRITES / sum(seconds)}
    sentence = f"{WRITES} writes of 4 KiB with fdatasync in {folder} ({kind}): p50 {middle * 1000:.3f} ms, {WRITES / sum(seconds):,.0f}/s."
    return judged(Finding("sync", True, sentence, facts=facts), kind, middle)


def judged(finding: Finding, kind: str, middle: float) -> Finding:
    """Judge the times: whether a real disk can be that fast, and whether it is slow."""
    sentence = finding.said
    if kind in IN_MEMORY:
        bad, todo = "That is memory: records are gone with the power.", "Put the data directory on a disk."
    elif kind in OVER_NETWORK:
        bad, todo = "A network file system may break locks and shared memory between machines.", "Put the data directory on a local disk."
    elif middle < TOO_FAST:
        bad = "No real disk is that fast: something says it has synced and has not."
        todo = "Look for a mount option or a virtual disk that leaves syncs out; acknowledged records may be lost with the power."
    elif middle > SLOW:
        return msgspec.structs.replace(
            finding, said=f"{sentence} That is slow, but can be a real disk.", todo="Append in batches: a batch waits once."
        )
    else:
        return msgspec.structs.replace(finding, said=f"{sentence} That can be a real disk.")
    return msgspec.structs.replace(finding, ok=False, said=f"{sentence} {bad}", todo=todo)


def space(data: Path) -> Finding:
    """Free space where the data are."""
    folder = nearest_folder(data)
    usage = shutil.disk_usage(folder)
    ok = usage.free >= LEAST_FREE
    sentence = f"{rounded_size(usage.free)} of {rounded_size(usage.total)} free in {folder}."
    todo = "" if ok else "Free some space, or name a data directory elsewhere: a full disk refuses appends."
    return Finding("space", ok, sentence, todo, {"free": usage.free, "total": usage.total})


def server(data: Path) -> Finding:
    """Report whether a server runs on the directory; both are fine."""
    from headwater.client.presence import serving

    running = serving(data)
    if running is None:
        return Finding("server", True, f"No server runs on {data}.", facts={"url": None})
    return Finding(
        "server", True, f"A server runs on {data} at {running.url} (process {running.pid}).", facts={"url": running.url, "pid": running.pid}
    )


def spark(settings: SparkSettings, *, seconds: int = SPARK_SECONDS) -> Finding:
    """Start a session in a subprocess, run one job with Python code, and check its answer."""
    command = [sys.executable, "-m", "headwater.cli.spark_probe"]
    began = time.monotonic()
    # Settings go through a pipe: on the command line every user of the machine could read their secrets.
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            out, err = process.communicate(pickle.dumps(settings), timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # Java is its child
            return Finding(
                "spark",
                False,
                f"Spark gave no answer within {seconds} seconds.",
                "See the log that `headwater.spark` names, and spark.master.",
            )
    took = time.monotonic() - began
    try:
        answer = msgspec.json.decode(out.splitlines()[-1])
    except (IndexError, msgspec.MsgspecError):
        last = err.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return Finding(
            "spark", False, f"Spark did not start: {last or 'it ended without a word'}.", "See the log that `headwater.spark` names."
        )
    if "problem" in answer:
        return Finding("spark", False, answer["problem"], answer["hint"])
    sentence = f"Spark {answer['version']} on {settings.master} started and ran a job in {took:.1f} s."
    return Finding("spark", True, sentence, facts={"version": answer["version"], "seconds": round(took, 3)})


# -- helpers ----------------------------------------------------------------------------------------------------


def nearest_folder(data: Path) -> Path:
    """The directory itself, or its nearest existing parent: doctor leaves no file behind."""
    for folder in (data, *data.absolute().parents):
        if folder.is_dir():
            return folder
    return Path("/")


def file_system(folder: Path, mounts: str | None = None) -> str:
    """The kind of file system below a directory, as the kernel names it."""
    try:
        lines = (Path("/proc/self/mounts").read_text() if mounts is None else mounts).splitlines()
    except OSError:
        return "unknown"
    path, best, kind = str(folder.resolve()), "", "unknown"
    for line in lines:
        point, system = line.split(" ")[1:3]
        point = point.replace("\\040", " ")
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, system
    return kind


def _syncs(folder: Path) -> list[float]:
    block = os.urandom(BLOCK)
    fd, path = tempfile.mkstemp(prefix=".headwater-doctor-", dir=folder)
    try:
        os.unlink(path)  # the file has no name, so nothing is left behind
        took = []
        for _ in range(WRITES):
            began = time.perf_counter()
            os.write(fd, block)
            os.fdatasync(fd)
            took.append(time.perf_counter() - began)
        return took
    finally:
        os.close(fd)
