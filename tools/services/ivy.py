"""Runs the Ivy inside PySpark, which knows where the public Java packages are. No digest is looked at here: see `jars.py`."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
SECONDS = 900  # for one attempt; Ivy keeps what it has, so that the next one goes on from there
UNTRUSTED = ("PKIX", "trustAnchors", "SSLHandshakeException", "certificate")
Coordinates = tuple[str, str, str, str]  # organisation, name, revision, classifier


def fetch(server: str, jars: Iterable[Coordinates], folder: Path, place: Place, java: Java, env: Mapping[str, str] | None = None) -> None:
    """Fill `folder` with exactly these jars, named name-revision[-classifier].jar. Nothing is resolved: no list of a list is read."""
    wanted = place.cache / "jars" / f"{server}.ivy.xml"
    wanted.parent.mkdir(parents=True, exist_ok=True)
    wanted.write_text(_module(server, jars))
    words = ["-ivy", str(wanted), "-confs", server, "-retrieve", f"{folder}/[artifact]-[revision](-[classifier]).[ext]"]
    _run(server, words, HERE / "ivysettings.xml", folder, place, java, env)
    wanted.unlink()


def resolve(server: str, folder: Path, place: Place, java: Java, env: Mapping[str, str] | None = None) -> None:
    """Fill `folder` with what `ivy.xml` and all that it leads to ask for, named organisation~name~revision[~classifier].jar."""
    words = ["-ivy", str(HERE / "ivy.xml"), "-confs", server, "-types", "jar", "bundle"]
    _run(
        server, [*words, "-retrieve", f"{folder}/[organisation]~[artifact]~[revision](~[classifier]).[ext]"], None, folder, place, java, env
    )


def _run(
    server: str, words: Sequence[str], settings: Path | None, folder: Path, place: Place, java: Java, env: Mapping[str, str] | None
) -> None:
    env = os.environ if env is None else env
    log = place.cache / "jars" / f"{server}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    kept = place.cache / "jars" / f"{server}.ivy"  # survives a failed attempt, goes after a good one
    chosen = env.get("HEADWATER_IVY_SETTINGS") or settings
    trust = iter(stores(place.cache, env))
    store = next(trust)
    for attempt in range(1, ATTEMPTS + 1):
        shutil.rmtree(folder, ignore_errors=True)
        command = [str(java.program), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *_network(store, env), *_ivy(kept)]
        command += ["-settings", str(chosen), *words] if chosen else words
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
