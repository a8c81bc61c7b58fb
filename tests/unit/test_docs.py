"""The reference is held to the program: what exists is documented, what is documented exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from headwater.cli.app import app
from headwater.core import document_errors, errors
from headwater.core.config import NOT_SETTINGS, load
from headwater.core.errors import HeadwaterError
from headwater.core.metrics import Metrics, SinkReading
from headwater.core.settings import every_setting
from headwater.documents.metrics import DocumentMetrics
from headwater.documents.partition_status import PartitionStanding
from headwater.journal.cache import CacheCounts
from headwater.journal.lag import PartitionLag
from headwater.journal.metrics import JournalMetrics, TopicReading
from headwater.journal.projection_metrics import ProjectionMetrics
from headwater.journal.projection_requests import ShownProjection
from headwater.journal.replicate import RoundOutcome
from headwater.journal.replication_task import PartitionOutcome
from headwater.journal.replicator_metrics import ReplicatorMetrics
from headwater.journal.snapshot_metrics import SnapshotMetrics
from headwater.journal.status import ReplicatorStatus
from headwater.queue.metrics import QueueMetrics, QueueReading
from headwater.queue.values import Counts, QueueStatistics
from headwater.wal.metrics import RegionReading, WalMetrics

DOCS = Path(__file__).resolve().parents[2] / "docs"
REFERENCE = DOCS / "reference"
SHARED = {"--data", "--config", "--json", "--yes", "--dry-run", "--help"}
WITHOUT_JSON = {"headwater serve", "headwater demo"}  # they run and tell; what they tell is not a result


def text(name: str) -> str:
    return (REFERENCE / name).read_text("utf-8")


def rows(name: str) -> list[list[str]]:
    """The cells of every table row that begins with a `name`."""
    lines = [line for line in text(name).splitlines() if line.startswith("| `")]
    return [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


# -- commands ---------------------------------------------------------------------------------------------------


def commands() -> Iterator[tuple[str, Any]]:
    """Every command that can be run, by its words; a group counts when it does something by itself."""

    def walk(command: Any, path: str) -> Iterator[tuple[str, Any]]:
        children = getattr(command, "commands", None)
        if children is None or command.invoke_without_command:
            yield path, command
        for name, child in (children or {}).items():
            yield from walk(child, f"{path} {name}")

    yield from walk(get_command(app()), "headwater")


COMMANDS = dict(commands())


def section(command: str) -> str:
    """What is written below the command's heading, up to the next heading."""
    match = re.search(rf"^##+ `{re.escape(command)}`\n(.*?)(?=^##+ |\Z)", text("cli.md"), re.MULTILINE | re.DOTALL)
    assert match, f"docs/reference/cli.md has no heading for `{command}`."
    return match[1]


def options_of(command: Any) -> set[str]:
    return {name for param in command.params if param.param_type_name == "option" for name in param.opts if name.startswith("--")}


def options_in(written: str) -> set[str]:
    """The options that a text names in code, leaving out other commands' lines."""
    return set(re.findall(r"(?<![\w-])(--[a-z][a-z-]*)", written))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_documented(name: str) -> None:
    written = section(name)
    missing = options_of(COMMANDS[name]) - options_in(written)
    assert not missing, f"`{name}` does not document {missing}."
    for param in COMMANDS[name].params:
        if param.param_type_name == "argument":
            assert param.metavar in written, f"`{name}` does not document {param.metavar}."


@pytest.mark.parametrize("name", COMMANDS)
def test_every_documented_option_exists(name: str) -> None:
    table = {option for row in re.findall(r"^\| `(--.*?)` \|", section(name), re.MULTILINE) for option in options_in(row)}
    takes = {option for sentence in re.findall(r"Takes (`--.*?)\.(?:\s|$)", section(name)) for option in options_in(sentence)}
    assert table | takes <= options_of(COMMANDS[name])
    assert options_of(COMMANDS[name]) - {"--help"} == table | takes


def test_every_documented_command_exists() -> None:
    headings = set(re.findall(r"^##+ `(headwater .*?)`$", text("cli.md"), re.MULTILINE))
    groups = {name.rpartition(" ")[0] for name in COMMANDS}
    assert headings - groups - set(COMMANDS) == set()


def test_shared_options_are_explained_once() -> None:
    shared = text("cli.md").partition("## Options that commands share")[2].partition("\n## ")[0]
    assert options_in(shared) >= SHARED


def test_every_command_has_json_and_help() -> None:
    assert {name for name, command in COMMANDS.items() if "--json" not in options_of(command)} == WITHOUT_JSON
    for name, command in COMMANDS.items():
        assert command.help, f"`{name}` has no help."
        for param in command.params:
            assert param.help, f"`{name}` has no help for {param.name}."


def test_exit_codes_are_listed() -> None:
    listed = set(re.findall(r"^\| (\d+(?: to \d+)?) \|", text("cli.md"), re.MULTILINE))
    assert listed == {"0", "1", "2", "3 to 9", "10", "130", "143"}


# -- settings ---------------------------------------------------------------------------------------------------


def default_text(default: Any) -> str:
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    shown = ",".join(default) if isinstance(default, tuple) else default
    return "none" if default in (None, (), {}, "") else f"`{shown}`"


def test_every_setting_is_documented_with_its_default() -> None:
    documented = {row[0].strip("`"): row[1:] for row in rows("config.md") if not row[0].startswith("`HEADWATER_")}
    assert documented == {setting.key: [default_text(setting.default), setting.about.text] for setting in every_setting()}


def test_every_variable_that_is_no_setting_is_documented() -> None:
    assert {row[0].strip("`") for row in rows("config.md") if row[0].startswith("`HEADWATER_")} == set(NOT_SETTINGS)


def test_the_example_of_a_config_file_is_accepted(tmp_path: Path) -> None:
    [example] = re.findall(r"```toml\n(.*?)```", text("config.md"), re.DOTALL)
    (tmp_path / "headwater.toml").write_text(example)
    settings = load(environ={}, cwd=tmp_path).settings
    assert len(settings.kafka.bootstrap) == 3


def test_variables_named_in_the_text_are_real(tmp_path: Path) -> None:
    names = set(re.findall(r"\b(HEADWATER_[A-Za-z_]+)", text("config.md"))) - NOT_SETTINGS - {"HEADWATER_"}
    assert names
    for name in names:
        load(environ={name: "1"}, cwd=tmp_path)


# -- errors -----------------------------------------------------------------------------------------------------


def tree(kind: type[HeadwaterError]) -> Iterator[type[HeadwaterError]]:
    yield kind
    for child in kind.__subclasses__():
        if child.__module__ in (errors.__name__, document_errors.__name__):
            yield from tree(child)


def test_every_error_is_documented_with_code_status_and_exit_code() -> None:
    documented = {row[0].strip("`"): row[1:] for row in rows("errors.md")}
    assert documented == {
        kind.__name__: [f"`{kind('').code}`", str(kind.status), str(kind.exit_code), " ".join((kind.__doc__ or "").split())]
        for kind in tree(HeadwaterError)
    }


def test_every_error_is_imported_as_documented() -> None:
    import headwater

    for kind in tree(HeadwaterError):
        assert getattr(headwater, kind.__name__) is kind
        assert kind.__name__ in headwater.__all__
    assert "from headwater import NotFound" in text("errors.md")
    assert "from headwater import NotFound" in text("python.md")


def test_a_usage_mistake_is_documented() -> None:
    from headwater.cli.usage import UsageMistake

    assert f"exit code {UsageMistake.exit_code}, and with `--json` the code `{UsageMistake.code}`" in text("errors.md")


# -- metrics ----------------------------------------------------------------------------------------------------


def test_every_metric_is_documented_with_type_and_labels() -> None:
    metrics = Metrics()
    partition = metrics.log.partition("bank", 0)
    partition.appended(1, 0.1, 1)
    partition.synced(0.1)
    metrics.http.answered("/", "GET", 200, 0.1)
    metrics.http.refused("header-size")
    metrics.http.stream_ended("left")
    metrics.pipeline.read = lambda: [SinkReading("shop", "report", 13, 7, True, 14)]
    wal = WalMetrics()
    wal.read = lambda: [RegionReading("wal", 7, 1, 1, 1, 1)]
    metrics.add(wal)
    queue = QueueMetrics()
    numbers: dict[str, Any] = dict.fromkeys(QueueStatistics.__struct_fields__, 1)
    queue.read = lambda: [QueueReading("pages", 2000, QueueStatistics(**{**numbers, "counts": Counts(1, 1, 1, 1, 1)}))]
    metrics.add(queue)
    journal = JournalMetrics(str)
    with journal.call("journal-bank", "append") as call:
        call.events(1)
    journal.topics = lambda: [TopicReading("journal-bank", CacheCounts(), 1, 1)]
    journal.lags = lambda: [PartitionLag(topic="journal-bank", partition=0, pointer=1, start=0, end=3, records=1, seconds=1.0)]
    journal.expired("journal-bank", 1)
    metrics.add(journal)
    replicator = ReplicatorMetrics()
    replicator.expired("journal-bank", 1, 0.1)
    copied = PartitionOutcome(topic="journal-bank", partition=0, pointer=1, records=1, timestamp=1)
    replicator.copied(RoundOutcome(engine="here", partitions=(copied,), seconds=0.1), 2)
    replicator.stands(ReplicatorStatus(pid=1, host="here", at=2, topics=("journal-bank",)))
    metrics.registry.register(replicator)
    metrics.add(SnapshotMetrics())
    projections = ProjectionMetrics()
    shown = ShownProjection(topic="journal-bank", name="balances", positions="sqlite", on_error="stop", lag=1, dead=1, standing=1)
    projections.read = lambda: [shown]
    metrics.add(projections)
    documents = DocumentMetrics()
    documents.read = lambda: [PartitionStanding(partition=0, state="Active")]
    metrics.add(documents)
    real = {}
    for family in metrics.registry.collect():
        if family.name.startswith("headwater_"):
            labels = sorted({label for sample in family.samples for label in sample.labels if label != "le"})
            name = f"`{family.name}_total`" if family.type == "counter" else f"`{family.name}`"
            real[name] = [family.type, ", ".join(labels) or "–", family.documentation]
    assert {row[0]: row[1:] for row in rows("metrics.md")} == real


# -- links ------------------------------------------------------------------------------------------------------


def test_links_between_the_reference_pages_lead_somewhere() -> None:
    for page in REFERENCE.glob("*.md"):
        for target in re.findall(r"\]\((?!https?://)([^)\s]+)\)", page.read_text("utf-8")):
            path, _, anchor = target.partition("#")
            other = page.parent / path if path else page
            assert other.exists(), f"{page.name} links to {target}."
            if anchor and other.suffix == ".md":
                headings = re.findall(r"^#+ (.*)$", other.read_text("utf-8"), re.MULTILINE)
                assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
