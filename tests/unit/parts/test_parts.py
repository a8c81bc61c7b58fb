"""A new part is its folder and one line of `PARTS`: everything else is there by itself."""

from __future__ import annotations

import asyncio
import inspect
import io
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import httpx2
import pytest
from tests.unit.parts import toy as toy_module
from tests.unit.parts.larger_toy import COUNTERS, FOLDER, LARGER_TOY, LivingToy, ToyTable
from tests.unit.parts.toy import TOY, Numbers, Toy
from tools.blocking_stub import text as blocking_types
from tools.reference import http_page
from typer.testing import CliRunner

import headwater
from headwater import parts
from headwater.cli.app import app
from headwater.client.backend import Backend
from headwater.client.job import Job
from headwater.client.local import local_log
from headwater.client.local_backend import LocalBackend
from headwater.client.remote import remote_log
from headwater.core.clock import SystemClock
from headwater.core.config import load as load_config
from headwater.core.document_errors import NotMatched
from headwater.core.errors import BadInput, Cancelled, NotFound
from headwater.core.settings import Settings
from headwater.server.openapi import document
from headwater.server.tour.report import TourReport
from headwater.spark.tables import find_table
from headwater.store import Migration, Migrations
from headwater.store.sqlite.shards import Shards
from headwater.testing.app import app_over
from headwater.testing.scripted import served
from headwater.wire.operation import Operation
from headwater.wire.part import load

if TYPE_CHECKING:
    from tests.unit.parts.toy_blocking import Blocking as ToyDoor

pytestmark = pytest.mark.anyio
SRC = Path(headwater.__file__).parent
ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def toy_is_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PARTS", (*parts.PARTS, LARGER_TOY))


@pytest.fixture(params=["directory", "http"])
async def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Backend]:
    log = local_log(Settings(), tmp_path / "data", SystemClock())
    await log.open()
    local = LocalBackend(log)
    if request.param == "directory":
        yield local
    else:
        async with served(app_over(log)) as url:
            remote = remote_log(url, token=None, clock=SystemClock())
            yield remote.backend
            await remote.aclose()
    await local.aclose()
    await log.aclose()


async def test_an_answer_with_an_etag_bytes_a_stream_and_a_job(backend: Backend) -> None:
    toy = Toy(backend)
    assert await toy.numbers(3) == Numbers([3, 2, 1])
    assert await toy.numbers(3, if_match='"3"') == Numbers([3, 2, 1])
    with pytest.raises(NotMatched):
        await toy.numbers(3, if_match='"4"')
    assert await toy.text(3) == b"3 2 1"
    assert [number async for number in toy.follow(3)] == [3, 2, 1]
    job = await toy.slowly(3)
    assert await job.result() == Numbers([3, 2, 1])
    status = await job.status()
    assert (status.operation, status.state, status.done, status.total) == ("toy_slowly", "done", 3, 3)


async def test_a_job_that_hangs_is_cancelled_and_one_that_fails_says_why(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    started = asyncio.Event()

    async def hangs(self: LivingToy, operation: object, request: object, who: str) -> None:
        started.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(LivingToy, "perform", hangs)
    job: Job[Any] = await Toy(backend).slowly(1)
    await started.wait()
    assert (await job.status()).state == "running"
    assert (await job.cancel()).state == "cancelled"
    with pytest.raises(Cancelled):
        await job.result()

    async def fails(self: LivingToy, operation: object, request: object, who: str) -> None:
        raise BadInput("No.", hint="Ask otherwise.")

    monkeypatch.setattr(LivingToy, "perform", fails)
    failing: Job[Any] = await Toy(backend).slowly(1)
    with pytest.raises(BadInput, match="Ask otherwise"):
        await failing.result()
    job.id = "none"
    with pytest.raises(NotFound, match="no job none"):
        await job.status()


async def test_its_addresses_check_and_describe(tmp_path: Path) -> None:
    log = local_log(Settings(), tmp_path / "data", SystemClock())
    async with httpx2.AsyncClient(base_url="http://server", transport=httpx2.ASGITransport(app=app_over(log))) as http:
        numbers = await http.get("/toy/2")
        assert (numbers.json(), numbers.headers["etag"]) == ({"numbers": [2, 1]}, '"2"')
        assert (await http.get("/toy/2", headers={"If-Match": '"3"'})).status_code == 412
        text = await http.get("/toy/2/text")
        assert (text.content, text.headers["content-type"].partition(";")[0]) == (b"2 1", "text/plain")
        assert (await http.get("/toy/2/follow")).text == "retry: 1000\n\ndata: 2\n\ndata: 1\n\n"
        assert (await http.get("/toy/x")).json()["code"] == "bad-input"
        assert (await http.get("/toy/1001")).status_code == 400
        begun = await http.post("/toy/2/slowly")
        assert (begun.status_code, begun.headers["location"]) == (202, f"/jobs/{begun.json()['id']}")
        described = (await http.get("/openapi.json")).json()
    await log.aclose()
    assert described["paths"]["/toy/{start}"]["get"]["operationId"] == "toy_numbers"
    assert described["paths"]["/toy/{start}/slowly"]["post"]["x-role"] == "writer"
    assert "Numbers" in described["components"]["schemas"]


def test_its_door_blocks_with_signatures_and_words(tmp_path: Path) -> None:
    with headwater.open_blocking(tmp_path) as hw:
        toy = cast("ToyDoor", hw).toy
        assert toy.numbers(2) == Numbers([2, 1])
        assert list(toy.follow(2)) == [2, 1]
        assert toy.slowly(2).result() == Numbers([2, 1])
        assert str(inspect.signature(toy.numbers)) == "(start: 'int', *, if_match: 'str | None' = None) -> 'Numbers'"
        assert toy.numbers.__doc__ == "Count down."
        assert {"log", "pipelines", "toy", "close"} <= set(dir(hw))
        assert toy.text(2) == b"2 1"
        assert {"numbers", "text", "follow", "slowly"} <= set(dir(toy))


def test_the_types_of_its_blocking_door_are_generated() -> None:
    stub = Path(__file__).with_name("toy_blocking.pyi")
    assert blocking_types([parts.part_named("log"), TOY], stub) == stub.read_text("utf-8"), "write it anew: python -m tools.blocking_stub"


def test_the_house_says_how_long_it_is() -> None:
    said = re.search(r"`tests/unit/parts/toy.py` is a whole part in (\d+) lines", (ROOT / "docs/explanation/house.md").read_text("utf-8"))
    assert said is not None
    assert int(said[1]) == len(Path(toy_module.__file__).read_text("utf-8").splitlines())


def test_its_command_and_its_row_are_there() -> None:
    assert CliRunner().invoke(app(), ["toy", "numbers"]).output == "3\n"
    page = "<!-- addresses: written by `python -m tools.reference` -->\n<!-- end of addresses -->"
    assert "| `GET /toy/{start}` | reader | Count down. |" in http_page(page.replace("-->\n<!--", "-->\nx\n<!--"))


_TOY_EVERYWHERE = (
    "from headwater import parts; from tests.unit.parts.larger_toy import LARGER_TOY; parts.PARTS = (*parts.PARTS, LARGER_TOY)"
)
_READING = """
import sys
from headwater.core.settings import SparkSettings
from headwater.spark import session
spark = session(SparkSettings(master="local[2]"), archive="use")
counters = spark.read.format("headwater").option("data", sys.argv[1])
frame = counters.load("counters:toy")
print(frame.rdd.getNumPartitions(), sorted(map(tuple, frame.collect())), frame.where("value > 8").select("counter").collect()[0].counter)
stream = spark.readStream.format("headwater").option("data", sys.argv[1]).load("counters:toy")
for refused in (
    lambda: counters.option("startOffset", "5").load("counters:toy").collect(),
    lambda: stream.writeStream.format("noop").start().processAllAvailable(),
):
    try:
        refused()
    except Exception as error:
        print("A store has no offsets" in str(error), "cannot be streamed" in str(error))
"""


@pytest.mark.spark
def test_spark_reads_its_store_with_a_task_for_each_shard(tmp_path: Path) -> None:
    """Spark plans and reads in processes of its own, so the toy is a part in all of them."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(_TOY_EVERYWHERE)
    migrations = Migrations("toy", (Migration(1, "counters", "CREATE TABLE counters (counter TEXT PRIMARY KEY, value INTEGER)"),))
    with Shards(tmp_path / "data" / "toy", count=3, synced=False) as shards:
        shards.migrate(migrations)
        for number in range(10):
            with shards.of(b"%d" % number).transaction() as store:
                store.rows("INSERT INTO counters VALUES (?, ?)", (f"c{number}", number))
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), str(SRC.parent), str(Path(__file__).parents[3])])}
    done = subprocess.run([sys.executable, "-c", _READING, str(tmp_path / "data")], env=env, capture_output=True, text=True)
    assert done.stdout.splitlines() == [f"3 {[(f'c{number}', number) for number in range(10)]} c9", "True False", "False True"], done.stderr


def test_spark_can_load_its_table_and_the_tour_has_its_chapter() -> None:
    assert isinstance(find_table("toy:orders", {}), ToyTable)
    with pytest.raises(BadInput, match="toy:NAME"):
        find_table("toys:orders", {})
    with pytest.raises(BadInput, match="has no records to follow: it is a store"):
        find_table("counters:toy", {})
    out = io.StringIO()
    load(LARGER_TOY.chapter)(None, Settings(), TourReport(out))
    assert "the toy counts" in out.getvalue()
    assert LARGER_TOY.demo_folder == FOLDER
    assert TOY.demo_folder == ""


def test_its_sections_are_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "headwater.toml").write_text('data = "."\n[toy]\nstep = 2\n[counter.fast]\npause = "1ms"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADWATER_COUNTER__FAST__WORDS", "a,b")
    with headwater.open_blocking() as hw:
        assert cast("ToyDoor", hw).toy.numbers(5) == Numbers([5, 3, 1])
    shown = CliRunner().invoke(app(), ["config"]).output
    assert re.search(r"^toy\.step +2 +.*headwater\.toml:3$", shown, re.MULTILINE)
    assert re.search(r"^counter\.fast\.words +a, b +HEADWATER_COUNTER__FAST__WORDS$", shown, re.MULTILINE)
    assert COUNTERS.of(load_config().settings, "fast").words == ("a", "b")


# -- every part -------------------------------------------------------------------------------------------------


def test_two_structs_or_operations_of_one_name_are_an_error() -> None:
    other = type("Numbers", (Numbers,), {}, frozen=True)
    with pytest.raises(TypeError, match="Two structs are named Numbers"):
        document([*TOY.operations[:1], Operation(**{**fields(TOY.operations[1]), "answer": other, "kind": "ask"})], "1")
    with pytest.raises(TypeError, match="Two operations are named toy_numbers"):
        document([TOY.operations[0], TOY.operations[0]], "1")


def fields(operation: Operation[Any, Any]) -> dict[str, Any]:
    return {name: getattr(operation, name) for name in operation.__struct_fields__}


def test_public_class_names_are_unique() -> None:
    """Two classes of one name are mixed up by whoever searches for one of them."""
    found: dict[str, list[str]] = {}
    for path in SRC.rglob("*.py"):
        for name in re.findall(r"^class ([A-Za-z]\w*)", path.read_text(), re.MULTILINE):
            found.setdefault(name, []).append(str(path.relative_to(SRC)))
    both = {"Retry"}  # what a handler of rows raises, and the policy of a sink: each is imported from its own part
    assert {name: paths for name, paths in found.items() if len(paths) > 1 and name not in both} == {}
