"""Runs the Ivy inside PySpark, which knows where the public Java packages are. No digest is looked at here: see `jars.py`."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from headwater.core.errors import Unavailable, Unreachable
from headwater.spark.java import Java
from tools.services.place import Place, tail
from tools.services.trust import stores

HERE = Path(__file__).parent
ATTEMPTS = 4
ALL, ONE = 900.0, 60.0  # seconds for one attempt, at all jars and at a single one
UNTRUSTED = ("PKIX", "trustAnchors", "SSLHandshakeException", "certificate")
Coordinates = tuple[str, str, str, str]  # organisation, name, revision, classifier


@dataclass(frozen=True, slots=True)
class Ivy:
    """Fills a folder with jars; beside the folder it keeps what was downloaded until all is there, and the log of the last attempt."""

    folder: Path
    place: Place
    java: Java
    env: Mapping[str, str]

    def fetch(self, server: str, jars: Sequence[Coordinates]) -> None:
        """Exactly these jars, named name-revision[-classifier].jar. Nothing is resolved: what they themselves would ask for is not read.

        Errors: `Unreachable` after several attempts.
        """
        wanted = self.folder.with_suffix(".xml")
        pattern = f"{self.folder}/[artifact]-[revision](-[classifier]).[ext]"
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        # One jar alone comes first: where no packet comes back, each jar costs its own time-out, and all would take an hour to fail.
        for some, seconds in ((jars[:1], ONE), (jars, ALL)):
            wanted.write_text(_module(server, some))
            self._run(server, ["-ivy", str(wanted), "-confs", server, "-retrieve", pattern], HERE / "ivysettings.xml", seconds)
        wanted.unlink()
        shutil.rmtree(self._kept)

    def resolve(self, server: str) -> None:
        """What `ivy.xml` asks for and all that follows from it, named organisation~name~revision[~classifier].jar."""
        words = ["-ivy", str(HERE / "ivy.xml"), "-confs", server, "-types", "jar", "bundle"]
        self._run(server, [*words, "-retrieve", f"{self.folder}/[organisation]~[artifact]~[revision](~[classifier]).[ext]"], None, ALL)
        shutil.rmtree(self._kept)

    @property
    def _kept(self) -> Path:
        return self.folder.with_suffix(".ivy")

    def _run(self, server: str, words: Sequence[str], settings: Path | None, seconds: float) -> None:
        log = self.folder.with_suffix(".log")
        log.parent.mkdir(parents=True, exist_ok=True)
        chosen = self.env.get("HEADWATER_IVY_SETTINGS") or settings
        trust = iter(stores(self.place.cache, self.env))
        store = next(trust)
        for attempt in range(1, ATTEMPTS + 1):
            shutil.rmtree(self.folder, ignore_errors=True)
            command = [str(self.java.program), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *_network(store, self.env)]
            command += [*_ivy(self._kept), *(["-settings", str(chosen)] if chosen else []), *words]
            with log.open("wb") as output:
                try:
                    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=seconds).returncode
                except subprocess.TimeoutExpired:
                    done = -1
            if done == 0 and self.folder.is_dir():
                return
            if any(word in tail(log, 200) for word in UNTRUSTED):
                store = next(trust, None)
            if attempt < ATTEMPTS:
                self.place.say(f"fetching {server} failed, trying again ({attempt} of {ATTEMPTS - 1}; what was said: {log})")
                self.place.wait(2 ** (attempt - 1))
        raise Unreachable(
            f"The jars of {server} could not be had after {ATTEMPTS} attempts. The last lines of {log}:\n{tail(log, 12)}\n",
            hint="See whether this machine reaches the public Java packages; HEADWATER_IVY_SETTINGS names a file that tells of a mirror.",
        )


def _module(server: str, jars: Iterable[Coordinates]) -> str:
    """An Ivy file that asks for these jars and for nothing that they lead to."""
    lines = []
    for (organisation, name, revision), group in groupby(sorted(jars), key=lambda jar: jar[:3]):
        lines.append(f'<dependency org="{organisation}" name="{name}" rev="{revision}" conf="{server}->default" transitive="false">')
        for *_, classifier in group:
            extra = f" m:classifier={quoteattr(classifier)}" if classifier else ""
            lines.append(f'<artifact name="{name}" type="jar" ext="jar"{extra}/>')
        lines.append("</dependency>")
    head = f'<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven"><info organisation="headwater" module="{server}"/>'
    return "\n".join(
        [head, f'<configurations><conf name="{server}"/></configurations><dependencies>', *lines, "</dependencies></ivy-module>\n"]
    )


def _ivy(kept: Path) -> Iterator[str]:
    spec = find_spec("pyspark")
    jars = Path(next(iter((spec and spec.submodule_search_locations) or ["pyspark"]))) / "jars"
    # httpclient stays off the class path: with it Ivy wants commons-logging as well
    paths = [path for pattern in ("ivy-*.jar", "commons-cli-*.jar", "oro-*.jar") for path in jars.glob(pattern)]
    if len(paths) != 3:
        raise Unavailable(f"PySpark's Ivy was not found in {jars}.", hint="Run `make venv`, and use .venv/bin/python.")
    yield f"-Divy.default.ivy.user.dir={kept}"  # not ~/.ivy2: what others put there is not ours to use
    yield from ("-cp", os.pathsep.join(map(str, paths)), "org.apache.ivy.Main", "-cache", str(kept / "cache"))


def _network(store: Path | None, env: Mapping[str, str]) -> Iterator[str]:
    yield from ("-Dsun.net.client.defaultConnectTimeout=20000", "-Dsun.net.client.defaultReadTimeout=60000")
    if store is not None:
        yield f"-Djavax.net.ssl.trustStore={store}"
    for scheme in ("http", "https"):  # Java does not read these variables by itself
        proxy = env.get(f"{scheme}_proxy") or env.get(f"{scheme.upper()}_PROXY")
        if proxy and (where := urlsplit(proxy if "://" in proxy else f"//{proxy}")).hostname:
            yield from (f"-D{scheme}.proxyHost={where.hostname}", f"-D{scheme}.proxyPort={where.port or 8080}")
