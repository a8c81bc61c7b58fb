"""Every benchmark that needs no server runs, gives a ratio and writes valid JSON. How fast anything was is never asserted."""

from __future__ import annotations

import io
import json
import re
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.__main__ import BENCHMARKS, main
from bench.case import Case, Peak, Sample, Side
from bench.documents.bare_routes import BareServer
from bench.documents.http_clients import HttpClients, request
from bench.floor import BareWrites, bare_read
from bench.journal.filled import copy, fill
from bench.journal.reading import BareReads, Reads
from bench.mark import Mark, both, memory, own_time, rate, ratio, ratio_on_slow_disks, size, slowdown, time
from bench.peers import environment
from bench.place import Place
from bench.queue.opened import Rounds
from bench.report import shown
from bench.rounds import Measured, Spread, measure
from bench.sizes import TINY, Sizes
from tools.services import Running

from headwater.core.errors import Differs, Unavailable, Unreachable

SERVERLESS = sorted(set(BENCHMARKS) - {"documents", "journal", "kafka", "pipelines", "queue", "spark", "sql", "wal"})


def run(folder: Path, *words: str) -> tuple[dict[str, Any], str]:
    """What a tiny run writes: the JSON, and what it says."""
    out, said = io.StringIO(), io.StringIO()
    assert main([*words, "--json", "-", "--dir", str(folder)], sizes=TINY, out=out, say=said) == 0
    return json.loads(out.getvalue()), said.getvalue()


def per(sample: dict[str, float]) -> float:
    """Pieces per second, or per byte where memory is measured."""
    return sample["amount"] / (sample["bytes"] if "bytes" in sample else sample["seconds"])


@pytest.mark.parametrize("name", SERVERLESS)
def test_it_runs_and_gives_ratios_and_json(name: str, tmp_path: Path) -> None:
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)
    found, said = run(tmp_path, name)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) >= descriptors, "what runs later in this process may need them"
    assert found["cases"]
    assert not found["skipped"]
    for case in found["cases"]:
        samples = zip(case["ours"]["samples"], case["floor"]["samples"], strict=True)
        ratios = sorted(per(a) / per(b) for a, b in samples)
        assert case["ratio"]["low"] == pytest.approx(ratios[0])
        assert case["ratio"]["high"] == pytest.approx(ratios[-1])
        assert ratios[0] > 0
        assert case["name"] in said
    assert re.search(r"\d\.\d\d \[\d+\.\d\d\.\.\d+\.\d\d\]", said)
    assert {"cores", "python", "start", "end"} <= set(found["machine"])
    for moment in ("start", "end"):
        assert found["machine"][moment]["sync_p50_us"] > 0
        assert len(found["machine"][moment]["load_average"]) == 3
    assert not list(tmp_path.iterdir()), "a run leaves nothing but what it was asked to write"


def test_regions_are_measured_where_their_peer_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise Unavailable("There is no network.", hint="Look.")

    monkeypatch.setattr(environment, "python", none)
    found, said = run(tmp_path, "wal")
    assert [one["name"] for one in found["skipped"]] == ["wal 64 writers beside RocksDB"]
    assert "There is no network." in said
    names = " ".join(case["name"] for case in found["cases"])
    for what in ("1 callers", "64 callers", "1024 callers", "batches", "open", "snapshot per", "memory per", "read of", "p99"):
        assert what in names
    assert all(case["ratio"]["low"] > 0 for case in found["cases"])
    assert not list(tmp_path.iterdir())


def test_queues_are_measured_where_servers_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*kinds: str, **options: object) -> Running:
        raise Unreachable("There is no network.", hint="Look.")

    monkeypatch.setattr("tools.services.up", none)
    found, said = run(tmp_path, "queue")
    skipped = [one["name"] for one in found["skipped"]]
    assert [name.rpartition("beside ")[2] for name in skipped] == ["beanstalkd", "PostgreSQL", "SKIP LOCKED"]
    assert "There is no network." in said
    names = " ".join(case["name"] for case in found["cases"])
    for what in (
        "put, 16",
        "put, 64",
        "claim, then done",
        "done with the next claim",
        "100 at once",
        "by HTTP",
        "p99",
        "future",
        "memory",
        "open",
    ):
        assert what in names
    assert all(case["ratio"]["low"] > 0 for case in found["cases"])
    assert not list(tmp_path.iterdir())


def test_journals_are_measured_where_spark_servers_and_peers_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object, **options: object) -> Any:
        raise Unavailable("There is no network.", hint="Look.")

    for name in ("tools.services.up", "headwater.spark.session", "bench.peers.environment.python"):
        monkeypatch.setattr(name, none)
    found, said = run(tmp_path, "journal")
    skipped = [one["name"] for one in found["skipped"]]
    assert skipped == ["journal beside eventsourcing", "journal replication", "journal rows into Cassandra"]
    assert "There is no network." in said
    names = " ".join(case["name"] for case in found["cases"])
    for what in ("1 callers", "64 callers", "1024 callers", "disk", "beside 8", "read of 10", "not copied", "read of 1000", "lag", "idle"):
        assert what in names
    assert all(case["ratio"]["low"] > 0 for case in found["cases"])
    assert not list(tmp_path.iterdir())


def test_documents_are_measured_where_their_peer_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object, **options: object) -> Any:
        raise Unavailable("There is no network.", hint="Look.")

    for name in ("tools.services.up", "headwater.spark.session", "bench.peers.environment.python"):
        monkeypatch.setattr(name, none)
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)
    found, said = run(tmp_path, "documents")
    assert resource.getrlimit(resource.RLIMIT_NOFILE) >= descriptors
    assert [one["name"] for one in found["skipped"]] == ["documents beside Kinto", "documents index build on Spark, 200 items"]
    assert "There is no network." in said
    names = " ".join(case["name"] for case in found["cases"])
    for what in (
        "GET, 64",
        "PUT, 64",
        "processor time",
        "PUT, 1 ",
        "by index",
        "page by id",
        "index build",
        "followers, p99",
        "idle follower",
    ):
        assert what in names
    assert all(case["ratio"]["low"] > 0 for case in found["cases"])
    assert not list(tmp_path.iterdir())


def test_a_request_of_a_round_that_is_refused_fails_it(tmp_path: Path) -> None:
    with BareServer.started(tmp_path) as server:
        for connections in (1, 3):
            clients = HttpClients(server.url, connections, lambda: 0.0)
            assert clients.round([request("PUT", "/there", b"{}")], 5).amount == 5
            assert clients.round([request("GET", "/there")], 5).amount == 5
            with pytest.raises(Differs, match="404"):
                clients.round([request("GET", "/absent")], 5)


def test_a_read_that_finds_too_little_fails(tmp_path: Path) -> None:
    fill(tmp_path, journals=3, events=4)
    copy(tmp_path)
    with Reads.opened(tmp_path, 3, 4) as reads, BareReads.opened(tmp_path, 3, 4) as bare:
        assert reads.round(6).amount == bare.round(6).amount == 24
    with Reads.opened(tmp_path, 3, 5) as reads, pytest.raises(Differs, match="12 events were read, not 15"):
        reads.round(3)


@pytest.mark.parametrize("way", ["claims_and_dones", "dones_with_claims"])
def test_rounds_of_a_queue_finish_the_rows_that_they_tell(way: str, tmp_path: Path) -> None:
    with Place(tmp_path).log("queue") as log, Rounds.opened(log) as rounds:
        rounds.fill(500, process_date=1 << 42)  # many more than a round has: a key of theirs that comes again would be merged
        assert getattr(rounds, way)(4, 5, batch=2).amount == 40
        assert rounds.queue.statistics().done == 40
        rounds.puts(4, 5)
        assert rounds.queue.statistics().merges == 0


def test_a_round_of_a_queue_without_its_rows_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rounds, "fill", lambda rounds, count: None)
    with Place(tmp_path).log("queue") as log, Rounds.opened(log) as rounds, pytest.raises(Differs, match="finished 0 rows, not 20"):
        rounds.claims_and_dones(4, 5)


def test_without_json_a_file_is_written_and_the_table_printed(tmp_path: Path) -> None:
    out = io.StringIO()
    main(["check", "--dir", str(tmp_path)], sizes=TINY, out=out, say=io.StringIO())
    (written,) = tmp_path.glob("*.json")
    names = [case["name"] for case in json.loads(written.read_text())["cases"]]
    assert names
    assert all(name in out.getvalue() for name in names)


def test_a_case_that_fails_is_told_and_the_others_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong() -> Sample:
        raise Differs("Nothing arrived.", hint="Look.")

    def benchmark(place: Place, sizes: Sizes) -> Iterator[Case]:
        right = Side("right", lambda: Sample(1, 1))
        yield Case("broken", "row", Side("wrong", wrong), right)
        yield Case("whole", "row", right, right)

    monkeypatch.setitem(BENCHMARKS, "check", benchmark)
    out, said = io.StringIO(), io.StringIO()
    assert main(["check", "--json", "-", "--dir", str(tmp_path)], sizes=TINY, out=out, say=said) == 1
    found = json.loads(out.getvalue())
    assert [case["name"] for case in found["cases"]] == ["whole"]
    assert [(one["name"], one["failed"]) for one in found["skipped"]] == [("broken", True)]
    assert "FAILED  Nothing arrived." in said.getvalue()


def test_an_unknown_benchmark_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["apend"])
    assert stopped.value.code == 2
    assert "append" in capsys.readouterr().err


def test_sides_take_turns_and_the_first_changes() -> None:
    order: list[str] = []

    def side(name: str) -> Side:
        def run() -> Sample:
            order.append(name)
            return Sample(len(order), 1.0)

        return Side(name, run)

    found = measure(Case("turns", "turn", side("ours"), side("floor")), 3)
    assert order == ["ours", "floor", "floor", "ours", "ours", "floor", "floor", "ours"]
    assert [sample.amount for sample in found.ours] == [4, 5, 8], "the warming round is not among the samples"
    assert [sample.amount for sample in found.floor] == [3, 6, 7]


def test_what_needs_no_warming_is_not_warmed() -> None:
    done: list[str] = []

    def side(name: str) -> Side:
        def run() -> Peak:
            done.append(name)
            return Peak(1, 100 * len(done))

        return Side(name, run)

    found = measure(Case("once", "run", side("ours"), side("floor"), rounds=1, warm=False, shown="memory"), 9)
    assert done == ["floor", "ours"]
    assert found.ratio.median == 0.5, "twice the memory is half the rate"


def measured(ours: list[float], floor: list[float], mark: Mark | None = None) -> Measured:
    nothing = Side("", lambda: Sample(1, 1))
    case = Case("case", "record", nothing, nothing, mark)
    return Measured(case, [Sample(one, 1.0) for one in ours], [Sample(one, 1.0) for one in floor], 0.0)


def test_a_ratio_is_taken_pair_by_pair() -> None:
    assert measured([10, 200, 30], [20, 400, 30]).ratio == Spread(0.5, 0.5, 1.0)


@pytest.mark.parametrize(
    ("mark", "ours", "floor", "met"),
    [
        (ratio(0.3), 30, 100, True),
        (ratio(0.3), 29, 100, False),
        (ratio_on_slow_disks(0.8, 0.0002), 3200, 4000, True),
        (ratio_on_slow_disks(0.8, 0.0002), 3100, 4000, False),
        (ratio_on_slow_disks(0.8, 0.0002), 3100, 6000, None),
        (rate(100, ""), 100, 1, True),
        (rate(100, ""), 99, 1, False),
        (time(1.0, ""), 1.1, 9, True),
        (time(1.0, ""), 0.9, 9, False),
        (own_time(20e-6), 40_000, 200_000, True),
        (own_time(20e-6), 39_000, 200_000, False),
        (memory(1.25), 0.8, 1, True),
        (memory(1.25), 0.7, 1, False),
        (slowdown(4), 0.25, 1, True),
        (slowdown(4), 0.24, 1, False),
        (size(4), 0.25, 9, True),
        (size(4), 0.24, 9, False),
        (both(ratio(0.5), rate(10, "")), 10, 20, True),
        (both(ratio(0.5), rate(10, "")), 9, 18, False),
        (both(ratio(0.5), rate(10, "")), 10, 21, False),
        (both(ratio(0.5), ratio_on_slow_disks(0.8, 0.0002)), 5000, 10_000, True),
        (both(ratio_on_slow_disks(0.1, 1), ratio_on_slow_disks(0.8, 0.0002)), 5000, 10_000, None),
        (None, 1, 1, None),
    ],
)
def test_marks(mark: Mark | None, ours: float, floor: float, met: bool | None) -> None:
    assert measured([ours] * 3, [floor] * 3, mark).met is met


def test_figures_read_well() -> None:
    nothing = Side("", lambda: Sample(1, 1))
    assert shown(Case("", "record", nothing, nothing), Spread(2_500_000, 900, 3e9)) == "2.5 M records/s [900..3 G]"
    assert shown(Case("", "open", nothing, nothing, shown="time"), Spread(50, 2, 40_000)) == "20 ms [25 µs..500 ms]"
    some = 1 / (1 << 20)
    assert (
        shown(Case("", "run", nothing, nothing, shown="memory"), Spread(some / 300, some / 400, some / 200)) == "300 MiB [200 MiB..400 MiB]"
    )


def test_the_floor_writes_and_reads_every_byte(tmp_path: Path) -> None:
    with BareWrites(tmp_path / "bare", 100) as bare:
        assert bare.round(7, 3).amount == 21
    assert (tmp_path / "bare").stat().st_size == 700
    assert bare_read([tmp_path / "bare"], chunk=64) == bare_read([tmp_path / "bare"], summed=True) == 700


def test_every_benchmark_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/benchmarks.md").read_text()
    assert all(f"| `{name}` |" in page for name in BENCHMARKS)
