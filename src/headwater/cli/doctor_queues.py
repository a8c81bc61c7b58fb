"""The check of `headwater doctor` on queues: dead rows, and queues that give out no rows."""

from __future__ import annotations

from headwater.cli.finding import Finding
from headwater.cli.output import counted
from headwater.core.clock import SystemClock
from headwater.core.settings import Settings


def queues(settings: Settings) -> Finding | None:
    """Report dead rows and paused queues, by the log alone; None where no queue is. Both are fine, and somebody's work."""
    from headwater.log.opening import address_of, open_log
    from headwater.queue.catalogue import stored_catalogue
    from headwater.queue.stored_queue import stored_fold

    if not settings.data.is_dir():
        return None
    dead, paused = dict[str, int](), list[str]()
    with open_log(address_of(settings, settings.data), read_only=True) as log:
        entries = stored_catalogue(log).entries
        for name, entry in sorted(entries.items()):
            fold, _ = stored_fold(log, entry, now=SystemClock().now_ms(), payloads=False)
            if fold.deaths:
                dead[name] = len(fold.deaths)
            if fold.paused:
                paused.append(name)
    if not entries:
        return None
    problems = [f"{name} has {counted(count, 'dead row')}" for name, count in dead.items()]
    problems += [f"{name} is paused" for name in paused]
    commands = [f"headwater queue dead {name} list" for name in dead] + [f"headwater queue resume {name}" for name in paused]
    return Finding(
        "queues",
        True,
        f"{', '.join(problems)}." if problems else f"{counted(len(entries), 'queue')} without dead rows; none is paused.",
        f"See `{'`, `'.join(commands)}`." if commands else "",
        facts={"dead_rows": dead, "paused": paused},
    )
