"""Runs projections where the log is: in this process, with a server on the directory or without one."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from headwater.core.clock import Clock, SystemClock
from headwater.core.config import load
from headwater.core.errors import BadInput, NotFound
from headwater.core.settings import Settings
from headwater.journal.entity_keys import EntityKeys
from headwater.journal.key_address import key_address_of, open_keys
from headwater.journal.projection import Projection
from headwater.journal.projection_run import ProjectionDone, ProjectionRun, kafka_shares, local_shares
from headwater.journal.settings import JOURNAL_SECTION
from headwater.journal.store import JournalStore
from headwater.journal.store_address import open_store, store_address_of
from headwater.journal.topics import JournalTopics
from headwater.log.opening import address_of, open_log
from headwater.log.record import TopicSettings


def run_projection(
    projection: Projection,
    where: str | Path | None = None,
    *,
    config: str | Path | None = None,
    once: bool = False,
    stopping: threading.Event | None = None,
) -> ProjectionDone:
    """Run a projection in this thread: its handler gets the events as they come, until `stopping` is set. Other processes that run it
    share its partitions.

    `where`: the data directory; None: the configured one. `once`: return when it has had what the log holds now. Errors: `UnknownJournal`;
    `NotFound` for a directory that is not there; `BadInput`; with `once` `Stopped` where a partition stands at an event, and `Unavailable`
    where the handler's database does not answer.
    """
    settings = load(file=config).settings
    if where is not None:
        settings = msgspec.structs.replace(settings, data=Path(where))
    with opened_run(projection, msgspec.structs.replace(settings, data=settings.data.absolute())) as run:
        ending = threading.Event()
        waiting = None
        if stopping is not None:
            waiting = threading.Thread(target=_stop_with, args=(stopping, ending, run), name="projection-stop", daemon=True)
            waiting.start()
        try:
            return run.run(once=once)
        finally:
            ending.set()


def _stop_with(stopping: threading.Event, ending: threading.Event, run: ProjectionRun) -> None:
    while not ending.is_set():
        if stopping.wait(0.2):
            run.stop()
            return


@contextmanager
def opened_run(projection: Projection, settings: Settings, *, clock: Clock | None = None) -> Iterator[ProjectionRun]:
    """A run of a projection over the configured log, not yet running. Errors: those of `run_projection`."""
    if not isinstance(projection, Projection):
        raise BadInput(f"{projection!r:.60} is no projection.", hint="Make one with headwater.Projection(topic, name, handler).")
    clock = clock or SystemClock()
    if settings.log.engine == "embedded" and not settings.data.is_dir():
        raise NotFound(f"There is no data directory {settings.data}.", hint="Name the one that the journals are in.")
    with ExitStack() as stack:
        log = stack.enter_context(open_log(address_of(settings), clock=clock))
        topic = JournalTopics(log, JOURNAL_SECTION.of(settings), TopicSettings()).find(projection.topic)
        stores: list[JournalStore] = []

        def store() -> JournalStore:
            if not stores:
                stores.append(stack.enter_context(open_store(store_address_of(settings, settings.data), clock=clock)))
            return stores[0]

        opened_keys: list[EntityKeys] = []
        address = key_address_of(settings, settings.data)

        def keys() -> EntityKeys | None:
            if not opened_keys and address.configured:
                entity_keys = open_keys(address, clock=clock)
                stack.callback(entity_keys.close)
                opened_keys.append(entity_keys)
            return opened_keys[0] if opened_keys else None

        embedded = log.engine == "embedded"
        shares = local_shares(settings.data, projection.name, clock) if embedded else kafka_shares(log, projection.name, clock)
        yield ProjectionRun(projection, log, topic, store=store, shares=shares, clock=clock, keys=keys)


def load_projection(name: str) -> Projection:
    """The projection that `module:object` names. Errors: `BadInput` for what cannot be imported, or is none."""
    module, colon, path = name.partition(":")
    if not colon or not module or not path:
        raise BadInput(f"{name!r} names no projection.", hint="Write it such as shop.balances:projection.")
    if "" not in sys.path:
        sys.path.insert(0, "")  # the folder in which the command was started, as `python -m` has it
    try:
        target: Any = importlib.import_module(module)
    except ImportError as error:
        raise BadInput(f"{module} cannot be imported: {error}.", hint="Start the command where the module is, or install it.") from error
    for word in path.split("."):
        target = getattr(target, word, None)
    if not isinstance(target, Projection):
        raise BadInput(f"{module} has no projection {path}.", hint="Make one with headwater.Projection(topic, name, handler).")
    return target
