"""Makes .venv from the pins, or leaves it alone when nothing changed. Standard library only: it runs before anything is installed.

python tools/venv.py run      what the product needs
python tools/venv.py dev      that, the optional servers' clients, and the tools for developing
python tools/venv.py peers    what the product is measured against, in .venv-peers: nothing of it may come into .venv
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PEERS = "peers"
BUILD_SPACE = 3 << 30  # pyspark comes as a source archive: unpacking and building it takes 2.3 GB
WANTS = {
    "run": (["-e", "."], "headwater and its pinned packages: about 40, 0.9 GB on disk"),
    "dev": (
        ["-e", ".[kafka,cassandra,pipelines]", "--group", "dev"],
        "headwater, the clients of every server it speaks to, and the tools for developing: about 100 packages, 1.4 GB on disk",
    ),
    PEERS: (["-r", "bench/peers/pins.txt"], "the programs that benchmarks compare with: about 80 packages, 0.5 GB on disk"),
}


def folder(want: str) -> Path:
    return ROOT / (".venv-peers" if want == PEERS else ".venv")


def pins(want: str) -> str:
    digest = hashlib.sha256(sys.version.encode())
    for name in ("bench/peers/pins.txt",) if want == PEERS else ("pyproject.toml", "constraints.txt"):
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def temporary(venv: Path) -> Path:
    """A folder with room for pyspark's build: the system's, or one of our own where that one is too small."""
    system = Path(tempfile.gettempdir())
    if shutil.disk_usage(system).free >= BUILD_SPACE:
        return system
    own = venv / "tmp"
    own.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(own).free
    if free < BUILD_SPACE:
        sys.exit(f"headwater: installing pyspark needs 3 GB, and neither {system} nor {venv} ({free >> 20} MiB free) has them. Set TMPDIR.")
    print(f"headwater: {system} is small, building in {own}", flush=True)
    return own


def pip(python: Path) -> list[str]:
    return [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]


def make(want: str) -> None:
    packages, summary = WANTS[want]
    if sys.version_info < (3, 11):  # noqa: UP036 - this very check is for people with an older one
        sys.exit(f"headwater: Python 3.11 or newer is needed, this is {sys.version.split()[0]}. Try: make PYTHON=python3.12 run")
    venv = folder(want)
    python = venv / "bin" / "python"
    stamp, now = venv / f"stamp-{want}", pins(want)
    if python.exists() and stamp.exists() and stamp.read_text() == now:
        return
    start = time.monotonic()
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        if want != PEERS:  # their wheels do with whatever pip comes with Python
            subprocess.run([*pip(python), "-c", "constraints.txt", "pip"], check=True, cwd=ROOT)
    print(f"headwater: installing into {venv.name}: {summary}. The first time this takes one to three minutes.", flush=True)
    # The pins of peers are a whole list already; ours would only contradict it.
    own = {} if want == PEERS else {"TMPDIR": str(temporary(venv)), "PIP_CONSTRAINT": str(ROOT / "constraints.txt")}
    env = {**os.environ, **own}
    done = subprocess.run([*pip(python), *packages], env=env, cwd=ROOT)
    if done.returncode:
        sys.exit(f"headwater: pip ended with {done.returncode}; what it said is above. Run make again once that is mended.")
    shutil.rmtree(venv / "tmp", ignore_errors=True)
    if want == "dev":
        (venv / "stamp-run").write_text(now)
    stamp.write_text(now)
    print(f"headwater: ready after {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    make(sys.argv[1] if len(sys.argv) > 1 else "dev")
