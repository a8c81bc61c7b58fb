"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
import time
from importlib import metadata
from pathlib import Path
from statistics import median

_PACKAGES = ("confluent-kafka", "google-crc32c", "msgspec", "numpy", "pyarrow", "pyspark")
_TICKS = os.sysconf("SC_CLK_TCK")


def facts() -> dict[str, object]:
    """What does not change during a run."""
    return {
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
    }


def moment(folder: Path, probes: int) -> dict[str, object]:
    """What does: taken at the start and at the end."""
    return {"load_average": list(os.getloadavg()), "sync_p50_us": round(sync_p50(folder, probes) * 1e6, 1)}


def sync_p50(folder: Path, count: int) -> float:
    """Seconds that writing and syncing 4 KiB at the end of a file takes, in the middle."""
    path = folder / "sync-probe"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    block, times = bytes(4096), []
    try:
        for _ in range(count):
            begun = time.perf_counter()
            os.write(fd, block)
            os.fdatasync(fd)
            times.append(time.perf_counter() - begun)
    finally:
        os.close(fd)
        path.unlink()
    return median(times)


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                # The name, which may hold anything, ends with the last bracket; the parent is the second field behind it.
                fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry))
    processes, at = [pid], 0
    while at < len(processes):
        processes += children.get(processes[at], [])
        at += 1
    return processes


def processor_time(pid: int | None = None) -> float:
    """Seconds that a process, or this one, and its descendants, Spark's Java and workers among them, have had a processor; 0 where nobody
    tells."""
    return sum(map(_seconds, family(os.getpid() if pid is None else pid))) if Path("/proc/self/stat").exists() else 0.0


def _seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS  # its own, and of children that have ended


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor())
