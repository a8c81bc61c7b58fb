"""A sign in a store by which tasks of Spark on other machines know that the store they see is the one that their job means.

A store of SQLite files is a folder. A machine that does not share it would silently make an empty one of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headwater.core.errors import BadConfig
from headwater.core.ids import random_id
from headwater.journal.store import JournalStore
from headwater.journal.store_address import StoreAddress

NO_SIGN = ("", "")
Sign = tuple[str, str]
"""The key of a setting, and its value. Empty: tasks need not look."""


@contextmanager
def signed(store: JournalStore, address: StoreAddress, *, local: bool) -> Iterator[Sign]:
    """A sign of its own for one job, as a block. `local`: the tasks run on this machine, which sees its files."""
    if local or address.folder is None:
        yield NO_SIGN
        return
    key, value = f"headwater/job/{random_id()}", random_id()
    store.set_setting(key, value)
    try:
        yield key, value
    finally:
        store.set_setting(key, None)


def check_sign(store: JournalStore, address: StoreAddress, sign: Sign) -> None:
    """Errors: `BadConfig` where the store is not the one that was signed."""
    key, value = sign
    if value and store.setting(key) != value:
        raise BadConfig(
            f"Spark's tasks do not see the store of journals in {address.folder}.",
            hint='Share that folder with the machines of the cluster, or set store.engine = "cassandra".',
        )
