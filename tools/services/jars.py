"""The jars of a server: had through the Ivy inside PySpark, and accepted only when every digest is the committed one.

`ivy.xml` says what each server needs, `jars.sha256` lists every file that results. A folder of jars is whole or absent: it is filled and
checked under another name, then renamed. It is checked again before each use, so that a damaged cache is fetched anew and never run.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from headwater.core.errors import Damaged, Unavailable, Unreachable
from headwater.spark.java import Java
from tools.services.place import Place, locked, tail
from tools.services.trust import stores

HERE = Path(__file__).parent
ATTEMPTS = 4
SECONDS = 900  # for one attempt; Ivy keeps what it has, so that the next one goes on from there
UNTRUSTED = ("PKIX", "trustAnchors", "SSLHandshakeException", "certificate")


@dataclass(frozen=True, slots=True)
class Jars:
    """The jars of one server: the files wanted by name and SHA-256, and the file that tells Ivy where they come from."""

    server: str
    wanted: Mapping[str, str]
    ivy: Path = HERE / "ivy.xml"
    env: Mapping[str, str] | None = None  # this process's own when None

    @staticmethod
    def listed(server: str) -> Jars:
        return Jars(server, listed(server))

    def folder(self, place: Place) -> Path:
        mark = hashlib.sha256("".join(f"{digest} {name}\n" for name, digest in sorted(self.wanted.items())).encode()).hexdigest()
        return place.cache / "jars" / f"{self.server}-{mark[:12]}"

    def have(self, place: Place, java: Java) -> Path:
        """The folder with exactly the wanted jars, fetched if need be. Safe when several processes ask at once: one fetches, the rest wait.

        Errors: `Unreachable` when they cannot be had, `Damaged` when what came is not what the list says; then nothing is kept.
        """
        folder = self.folder(place)
        if not difference(folder, self.wanted):
            return folder
        with locked(folder.with_suffix(".lock"), place.say, f"another process is fetching {self.server}, waiting for it"):
            if folder.exists():
                problem = difference(folder, self.wanted)
                if not problem:
                    return folder
                place.say(f"the cached {self.server} is damaged ({problem}), fetching it again")
                shutil.rmtree(folder)
            started = time.monotonic()
            place.say(f"fetching {self.server}: {len(self.wanted)} jars; this takes about a minute, once")
            new = folder.with_suffix(".new")
            shutil.rmtree(new, ignore_errors=True)
            try:
                fetch(self.server, new, place, java, ivy=self.ivy, env=self.env)
                if problem := difference(new, self.wanted):
                    raise Damaged(
                        f"What was fetched for {self.server} is refused: {problem}.",
                        hint="Try again. If it stays so, something on the way changes the files, or ivy.xml was changed without `pin`.",
                    )
                new.rename(folder)
            finally:
                shutil.rmtree(new, ignore_errors=True)
            place.say(f"fetched {self.server} in {time.monotonic() - started:.0f} s into {folder}")
        return folder


def listed(server: str, path: Path = HERE / "jars.sha256") -> dict[str, str]:
    """The committed list of a server: file name → SHA-256."""
    wanted = {}
    for line in path.read_text().splitlines():
        digest, name = line.split()
        if name.startswith(f"{server}/"):
            wanted[name.removeprefix(f"{server}/")] = digest
    return wanted


def difference(folder: Path, wanted: Mapping[str, str]) -> str:
    """How the folder differs from the list, in words; empty when it has exactly the wanted files."""
    if not folder.is_dir():
        return "it is not there"
    there = {path.name for path in folder.iterdir()}
    if not wanted:
        return "its list is empty"
    for name in sorted(there ^ wanted.keys()):
        return f"{name} is missing" if name in wanted else f"{name} is not on the list"
    for name, digest in sorted(wanted.items()):
        if (found := sha256(folder / name)) != digest:
            return f"{name} has SHA-256 {found}, the list says {digest}"
    return ""


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch(server: str, folder: Path, place: Place, java: Java, *, ivy: Path, env: Mapping[str, str] | None = None) -> None:
    """Fill `folder` with what `ivy.xml` resolves to for this server. Tried several times; the digests are not looked at here."""
    env = os.environ if env is None else env
    log = place.cache / "jars" / f"{server}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    kept = place.cache / "jars" / f"{server}.ivy"  # survives a failed attempt, goes after a good one
    trust = iter(stores(place.cache, env))
    store = next(trust)
    for attempt in range(1, ATTEMPTS + 1):
        shutil.rmtree(folder, ignore_errors=True)
        command = [str(java.program), "-Xmx256m", *_network(store, env), *_ivy(kept), "-ivy", str(ivy), "-confs", server]
        if settings := env.get("HEADWATER_IVY_SETTINGS"):
            command += ["-settings", settings]
        command += ["-types", "jar", "bundle", "-retrieve", f"{folder}/[artifact]-[revision](-[classifier]).[ext]"]
        with log.open("wb") as output:
            try:
                done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=SECONDS).returncode
            except subprocess.TimeoutExpired:
                done = -1
        if done == 0 and folder.is_dir():
            shutil.rmtree(kept, ignore_errors=True)
            return
        if any(word in tail(log, 200) for word in UNTRUSTED):
            store = next(trust, None)
        if attempt < ATTEMPTS:
            place.say(f"fetching {server} failed, trying again ({attempt} of {ATTEMPTS - 1}; what was said: {log})")
            time.sleep(min(2**attempt, 8) / 2)
    raise Unreachable(
        f"The jars of {server} could not be had after {ATTEMPTS} attempts. The last lines of {log}:\n{tail(log, 12)}\n",
        hint="See whether this machine reaches the public Java packages; HEADWATER_IVY_SETTINGS names a file that tells of a mirror.",
    )


def _ivy(kept: Path) -> Iterator[str]:
    spec = find_spec("pyspark")
    jars = Path(next(iter((spec and spec.submodule_search_locations) or ["pyspark"]))) / "jars"
    # httpclient stays off the class path: with it Ivy wants commons-logging as well
    found = [path for pattern in ("ivy-*.jar", "commons-cli-*.jar", "oro-*.jar") for path in jars.glob(pattern)]
    if len(found) != 3:
        raise Unavailable(f"PySpark's Ivy was not found in {jars}.", hint="Run `make venv`, and use .venv/bin/python.")
    yield f"-Divy.default.ivy.user.dir={kept}"  # not ~/.ivy2: what others put there is not ours to use
    yield from ("-cp", os.pathsep.join(map(str, found)), "org.apache.ivy.Main", "-cache", str(kept / "cache"))


def _network(store: Path | None, env: Mapping[str, str]) -> Iterator[str]:
    yield from ("-Dsun.net.client.defaultConnectTimeout=20000", "-Dsun.net.client.defaultReadTimeout=60000")
    if store is not None:
        yield f"-Djavax.net.ssl.trustStore={store}"
    for scheme in ("http", "https"):  # Java does not read these variables by itself
        proxy = env.get(f"{scheme}_proxy") or env.get(f"{scheme.upper()}_PROXY")
        if proxy and (where := urlsplit(proxy if "://" in proxy else f"//{proxy}")).hostname:
            yield from (f"-D{scheme}.proxyHost={where.hostname}", f"-D{scheme}.proxyPort={where.port or 8080}")
