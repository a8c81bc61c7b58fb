"""The environment of the peers, made on demand in .venv-peers. Without a network, and without one made before, there are no peers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from headwater.core.errors import Unavailable

ROOT = Path(__file__).resolve().parents[2]
_SECONDS = 900.0


def python() -> Path:
    """The Python that has the peers, installed first where it is missing or its pins have changed.

    Errors: `Unavailable` with the last that pip said.
    """
    command = [sys.executable, str(ROOT / "tools" / "venv.py"), "peers"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"installing the peers took more than {_SECONDS:.0f} s", hint="See whether this machine reaches PyPI.") from None
    if done.returncode:
        errors = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise Unavailable(
            f"the peers cannot be installed: {errors[0] if errors else 'pip said nothing'}", hint="Run `python tools/venv.py peers`."
        )
    return ROOT / ".venv-peers" / "bin" / "python"
