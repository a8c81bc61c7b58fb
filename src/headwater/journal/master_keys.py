"""Master keys: they wrap the data keys of entities. headwater never writes them down; a file or an environment variable holds them.

A line is a key: its name, a space, and 32 bytes in base64. The first one wraps new data keys; all of them unwrap, so that older keys stay
readable after a new one was put on top. Lines that begin with # are passed over. In a variable, commas may stand for line ends.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Mapping
from pathlib import Path

from headwater.core.errors import BadConfig, Undecryptable
from headwater.core.files import explaining
from headwater.journal.cipher import USUAL, KeyedCipher, NotAuthentic, Randomness, cipher_named

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_FORM = "Write a line for each key: its name, a space, 32 bytes in base64. `headwater journal key` prints a new one."
_LARGEST = 1 << 20  # bytes of a file of keys


class MasterKeys:
    """The master keys of an installation. Safe for several threads. Printing them shows their names alone."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        """`keys`: by name, the one that wraps first. Errors: `BadConfig` for none; `Unsupported` without the cipher's library."""
        if not keys:
            raise BadConfig("There is no master key among those that are configured.", hint=_FORM)
        cipher = cipher_named(USUAL)
        self._keys: dict[str, KeyedCipher] = {name: cipher.with_key(key) for name, key in keys.items()}
        self.newest = next(iter(self._keys))
        """The name of the key that wraps."""

    def __repr__(self) -> str:
        return f"MasterKeys({', '.join(self._keys)})"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._keys)

    def wrap(self, key: bytes, *, topic: str, id: str, key_id: bytes) -> bytes:
        """A data key, encrypted with the newest master key, for this entity alone."""
        return self._keys[self.newest].seal(key, _place(topic, id, key_id))

    def unwrap(self, wrapped: bytes, master: str, *, topic: str, id: str, key_id: bytes) -> bytes:
        """A data key. `master`: the name of the key that wrapped it. Errors: `Undecryptable`."""
        keyed = self._keys.get(master)
        if keyed is None:
            raise Undecryptable(
                f"The key of journal {id!r:.60} was wrapped by the master key {master!r:.64}, which is not configured.",
                hint="Add its line to the configured master keys (journal.key_file or journal.key_variable), below the newest.",
            )
        try:
            return keyed.open(wrapped, _place(topic, id, key_id))
        except NotAuthentic:
            raise Undecryptable(
                f"The master key {master!r:.64} does not open the key of journal {id!r:.60}: it is another key of that name, or the key "
                "store is damaged.",
                hint="Configure the master key that has wrapped it, or restore the key store from a backup.",
            ) from None


def _place(topic: str, id: str, key_id: bytes) -> bytes:
    topic_bytes, id_bytes = topic.encode(), id.encode()
    return b"headwater data key 1 %d:%b%d:%b%b" % (len(topic_bytes), topic_bytes, len(id_bytes), id_bytes, key_id)


def read_master_keys(text: str, where: str) -> MasterKeys:
    """The keys that a text lists. `where`: its name in errors. Errors: `BadConfig`, which shows nothing of a key."""
    keys: dict[str, bytes] = {}
    for number, line in enumerate(re.split(r"[\n,]", text), 1):
        parts = line.split()
        if not parts or parts[0].startswith("#"):
            continue
        if len(parts) != 2 or not _NAME.fullmatch(parts[0]):
            raise BadConfig(f"Line {number} of {where} is no master key.", hint=_FORM)
        try:
            key = base64.b64decode(parts[1], validate=True)
        except (binascii.Error, ValueError):
            raise BadConfig(f"The master key {parts[0]} of {where} is no base64.", hint=_FORM) from None
        if len(key) != cipher_named(USUAL).key_size:
            raise BadConfig(f"The master key {parts[0]} of {where} has {len(key)} bytes, not 32.", hint=_FORM)
        if parts[0] in keys:
            raise BadConfig(f"{where} has two master keys {parts[0]}.", hint="Give each key a name of its own.")
        keys[parts[0]] = key
    if not keys:
        raise BadConfig(f"{where} holds no master key.", hint=_FORM)
    return MasterKeys(keys)


def load_master_keys(file: Path | None, variable: str, environ: Mapping[str, str] | None = None) -> MasterKeys:
    """The configured keys: of a file, or of an environment variable. Errors: `BadConfig` where none or both are configured, or wrong."""
    environ = os.environ if environ is None else environ
    if file is not None and variable:
        raise BadConfig("Both `journal.key_file` and `journal.key_variable` are set.", hint="Set one of them.")
    if file is not None:
        if not file.exists():
            raise BadConfig(f"There is no file {file}, which `journal.key_file` names.", hint=_FORM)
        with explaining(file, reading=True):
            if file.stat().st_size > _LARGEST:
                raise BadConfig(f"{file} is too large for a file of master keys.", hint=_FORM)
            data = file.read_bytes()
        try:
            return read_master_keys(data.decode(), str(file))
        except UnicodeDecodeError:
            raise BadConfig(f"{file} is no text.", hint=_FORM) from None
    if not variable:
        raise BadConfig("No master key is configured.", hint="Set `journal.key_file` or `journal.key_variable`.")
    if not environ.get(variable):
        raise BadConfig(f"The environment variable {variable}, which `journal.key_variable` names, is empty.", hint=_FORM)
    return read_master_keys(environ[variable], f"the environment variable {variable}")


def new_master_key(name: str, random: Randomness = os.urandom) -> str:
    """A line with a new master key. Errors: `BadConfig` for what is no name of a key."""
    if not _NAME.fullmatch(name):
        raise BadConfig(f"{name!r:.64} is no name of a master key.", hint="Use letters, digits, '.', '_' and '-', such as 2027-01.")
    return f"{name} {base64.b64encode(random(cipher_named(USUAL).key_size)).decode()}"
