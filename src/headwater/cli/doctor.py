"""`headwater doctor`: checks the machine and the configured servers; each failed check names the next step."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Annotated

import msgspec
import typer

from headwater.cli import doctor_machine, doctor_queues, doctor_services
from headwater.cli.finding import Finding
from headwater.cli.options import ConfigFile, DataDir, Json, settings_from
from headwater.cli.output import print_json, visible
from headwater.core.errors import HeadwaterError, Unavailable
from headwater.core.settings import Settings


def doctor(
    spark: Annotated[bool, typer.Option("--spark", help="Start Spark, too, and run a small job on it: takes some seconds.")] = False,
    data: DataDir = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Check Python, Java, the disk, and every configured server. Ends with exit code 6 when a check fails."""
    settings = settings_from(data, config).settings
    results = []
    for finding in findings(settings, spark=spark):
        results.append(finding)
        if not json:
            _print(finding)
    if json:
        print_json(msgspec.to_builtins(results))
    bad = [finding.check for finding in results if not finding.ok]
    if bad:
        raise Unavailable(f"Not fine: {', '.join(bad)}.", hint="Each failed check above names the next step.")


def findings(settings: Settings, *, spark: bool) -> Iterator[Finding]:
    """Run every applicable check, one after the other. An unexpected exception of a check is a finding, too."""
    checks: list[tuple[str, Callable[[], Finding | None]]] = [
        ("python", doctor_machine.python),
        ("java", doctor_machine.java),
        ("sync", lambda: doctor_machine.sync(settings.data)),
        ("space", lambda: doctor_machine.space(settings.data)),
        ("server", lambda: doctor_machine.server(settings.data)),
    ]
    if settings.log.engine == "embedded":
        checks.append(("queues", lambda: doctor_queues.queues(settings)))
    if settings.log.engine == "kafka":
        checks.append(("kafka client", doctor_services.kafka_client))
    for address in settings.kafka.bootstrap:
        checks.append((f"kafka {address}", lambda at=address: doctor_services.kafka(at, settings.kafka)))  # type: ignore[misc]
    for address in settings.cassandra.contact_points:
        checks.append((f"cassandra {address}", lambda at=address: doctor_services.cassandra(at)))  # type: ignore[misc]
    if settings.spark.master.startswith("spark://"):
        checks.append(("spark master", lambda: doctor_services.spark_master(settings.spark.master)))
    if spark:
        checks.append(("spark", lambda: doctor_machine.spark(settings.spark)))
    for name, check in checks:
        try:
            finding = check()
            if finding is not None:
                yield finding
        except HeadwaterError as error:
            yield Finding(name, False, error.message, error.hint)
        except OSError as error:
            yield Finding(name, False, f"It could not be checked: {error}.", "See whether this user may do that here.")


def _print(finding: Finding) -> None:
    sys.stdout.write(f"{'ok ' if finding.ok else 'BAD'}  {finding.check}: {visible(finding.said)}\n")
    if finding.todo:
        sys.stdout.write(f"     {visible(finding.todo)}\n")
    sys.stdout.flush()
