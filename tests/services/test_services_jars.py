"""Jars are had through the real Ivy, here from a folder, and nothing but the listed bytes is accepted."""

from __future__ import annotations

import hashlib
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from tools.services.jars import Jar, Jars, read
from tools.services.place import Place
from tools.services.trust import encoded, stores, trusted, written

from headwater.core.errors import Damaged, Unreachable
from headwater.spark.java import Java, find_java

pytestmark = pytest.mark.service()  # no server is needed, but these belong to them

BYTES = {"thing-1.0.jar": b"the thing", "thing-1.0-native.jar": b"its native part", "other-2.1.jar": b"another"}
SETTINGS = """\
<ivysettings>
  <settings defaultResolver="folder"/>
  <resolvers>
    <filesystem name="folder" m2compatible="true">
      <artifact pattern="{folder}/[organisation]/[module]/[revision]/[artifact]-[revision](-[classifier]).[ext]"/>
    </filesystem>
  </resolvers>
</ivysettings>
"""


@pytest.fixture(scope="module")
def java() -> Java:
    return find_java()


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def place(tmp_path: Path, said: list[str]) -> Place:
    return Place(tmp_path / "cache", tmp_path / "run", said.append, wait=lambda seconds: said.append(f"waited {seconds}"))


@pytest.fixture
def public(tmp_path: Path) -> Path:
    """A folder laid out as the public packages are."""
    folder = tmp_path / "public"
    for name, content in BYTES.items():
        module, revision = name.removesuffix(".jar").split("-")[:2]
        path = folder / "org" / "example" / module / revision / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


@pytest.fixture
def env(tmp_path: Path, public: Path) -> dict[str, str]:
    (tmp_path / "settings.xml").write_text(SETTINGS.format(folder=public))
    return {"HEADWATER_IVY_SETTINGS": str(tmp_path / "settings.xml")}


@pytest.fixture
def jars() -> Jars:
    names = [("other", "2.1", ""), ("thing", "1.0", ""), ("thing", "1.0", "native")]
    listed = [Jar("demo", "org.example", name, revision, part, "") for name, revision, part in names]
    return Jars("demo", [replace(jar, sha256=hashlib.sha256(BYTES[jar.file]).hexdigest()) for jar in listed])


def kept(place: Place) -> list[str]:
    """What is left in the cache besides locks and logs."""
    return sorted(path.name for path in (place.cache / "jars").iterdir() if path.suffix not in (".lock", ".log"))


def test_exactly_the_listed_jars_are_had_once(jars: Jars, place: Place, java: Java, env: dict[str, str], said: list[str]) -> None:
    folder = jars.have(place, java, env)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == BYTES
    assert kept(place) == [folder.name]
    said.clear()
    assert jars.have(place, java, env) == folder
    assert said == []


def test_a_jar_with_another_digest_is_refused(jars: Jars, place: Place, java: Java, env: dict[str, str], public: Path) -> None:
    (public / "org/example/other/2.1/other-2.1.jar").write_bytes(b"not what it was")
    with pytest.raises(Damaged, match=r"other-2\.1\.jar has SHA-256"):
        jars.have(place, java, env)
    assert [name for name in kept(place) if name.startswith("demo-")] == []


def test_a_damaged_cache_is_fetched_again(jars: Jars, place: Place, java: Java, env: dict[str, str], said: list[str]) -> None:
    folder = jars.have(place, java, env)
    (folder / "thing-1.0.jar").write_bytes(b"rotten")
    assert jars.have(place, java, env) == folder
    assert (folder / "thing-1.0.jar").read_bytes() == BYTES["thing-1.0.jar"]
    assert any("damaged (thing-1.0.jar has SHA-256" in line for line in said)


@pytest.mark.parametrize(
    ("change", "words"), [("more", "extra.jar is not on the list"), ("less", "other-2.1.jar is missing"), ("none", "it is not there")]
)
def test_what_a_folder_lacks_or_has_too_much(jars: Jars, tmp_path: Path, change: str, words: str) -> None:
    folder = tmp_path / "jars"
    if change != "none":
        folder.mkdir()
        for name, content in BYTES.items():
            (folder / name).write_bytes(content)
        assert jars.difference(folder) == ""
    if change == "more":
        (folder / "extra.jar").touch()
    if change == "less":
        (folder / "other-2.1.jar").unlink()
    assert jars.difference(folder) == words


def test_an_empty_list_accepts_nothing(tmp_path: Path) -> None:
    assert Jars("demo", []).difference(tmp_path) == "its list is empty"


def test_what_cannot_be_had_is_tried_again_and_then_told(
    jars: Jars, place: Place, java: Java, env: dict[str, str], public: Path, said: list[str]
) -> None:
    for path in public.rglob("*.jar"):
        path.unlink()
    with pytest.raises(Unreachable, match="after 4 attempts"):
        jars.have(place, java, env)
    assert [line for line in said if line.startswith("waited")] == ["waited 1", "waited 2", "waited 4"]
    assert not jars.folder(place).exists()


def test_many_at_once_fetch_once(jars: Jars, place: Place, java: Java, env: dict[str, str], said: list[str]) -> None:
    with ThreadPoolExecutor(4) as pool:
        folders = set(pool.map(lambda _: jars.have(place, java, env), range(4)))
    assert folders == {jars.folder(place)}
    assert sum(line.startswith("fetching demo") for line in said) == 1


@pytest.mark.parametrize("server", ["kafka", "cassandra"])
def test_the_committed_list_is_whole(server: str) -> None:
    jars = Jars.listed(server)
    assert len(jars.jars) > 40
    assert len({jar.file for jar in jars.jars}) == len(jars.jars)
    assert all(len(jar.sha256) == 64 and int(jar.sha256, 16) for jar in jars.jars)


def test_a_line_of_the_list_says_it_all(tmp_path: Path) -> None:
    jar = Jar("demo", "org.example", "thing", "1.0", "native", "0" * 64)
    (tmp_path / "list").write_text(f"# a remark\n{jar.line}{replace(jar, classifier='').line}")
    assert read(tmp_path / "list") == [jar, replace(jar, classifier="")]


def test_java_reads_the_trust_store_that_we_write(tmp_path: Path, java: Java) -> None:
    from pip._vendor import certifi  # always there: this environment was made with pip

    certificates = trusted({"SSL_CERT_FILE": certifi.where()})
    assert len(certificates) > 50
    words = ["-list", "-keystore", written(certificates, tmp_path), "-storepass", "changeit"]
    done = subprocess.run([java.program, "-m", "java.base/sun.security.tools.keytool.Main", *words], capture_output=True, text=True)
    assert f"{len(certificates)} entries" in done.stdout, done.stdout + done.stderr


def test_java_notices_a_changed_trust_store(tmp_path: Path, java: Java) -> None:
    store = tmp_path / "store"
    store.write_bytes(encoded([])[:-1] + b"x")
    words = ["-list", "-keystore", store, "-storepass", "changeit"]
    assert subprocess.run([java.program, "-m", "java.base/sun.security.tools.keytool.Main", *words], capture_output=True).returncode != 0


def test_java_s_own_trust_store_is_tried_last(tmp_path: Path) -> None:
    assert stores(tmp_path, {})[-1] is None
