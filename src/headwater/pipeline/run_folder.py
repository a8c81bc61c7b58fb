"""What relative paths of a definition mean: files in the folder of the run, in every process that works for it.

A Spark task runs in a folder of its worker, so paths are made absolute once, when the definition is complete. Which options are paths
is declared with them (`Means.path`, `Means.files`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from headwater.core.errors import BadConfig
from headwater.pipeline.adaptor import Adaptor
from headwater.pipeline.env import Env, resolve
from headwater.pipeline.options import Means, options_of

A = TypeVar("A", bound=Adaptor)
_FILE = "file://"
_ELSEWHERE = re.compile(r"-$|/|[A-Za-z][A-Za-z0-9+.-]*:/")  # standard input and output, absolute paths, addresses


def in_folder(adaptor: A, folder: str) -> A:
    """The adaptor with every relative path in its options below `folder`. A variable whose value is not known here stays as it is."""
    changes: dict[str, Any] = {}
    for name, option in options_of(type(adaptor)).items():
        value = getattr(adaptor, name)
        made = _made(value, option.means, folder)
        if made != value:
            changes[name] = made
    return msgspec.structs.replace(adaptor, **changes) if changes else adaptor


def absolute(path: str | Env, folder: str) -> str | Env:
    """A path below `folder` where it is relative; the text keeps its variables, which may hold secrets."""
    if not isinstance(path, Env) and path.startswith(_FILE) and not path.startswith(f"{_FILE}/"):
        return f"{_FILE}{folder}/{path.removeprefix(_FILE)}"
    try:
        text = resolve(path)
    except BadConfig:  # whoever connects says which variable is missing
        return path
    if not text or _ELSEWHERE.match(text):
        return path
    return f"{folder}/{path if not isinstance(path, Env) or path.name in os.environ else text}"


def _made(setting: Any, means: Means, folder: str) -> Any:
    if means.path and isinstance(setting, str | Env):
        return absolute(setting, folder)
    if means.files and isinstance(setting, str):
        return _in_address(setting, means.files, folder)
    if means.files and isinstance(setting, Mapping):
        return {name: absolute(value, folder) if name.endswith(means.files) else value for name, value in setting.items()}
    return setting


def _in_address(address: str, names: tuple[str, ...], folder: str) -> str:
    """The address with the files that its parameters name below `folder`. "system" is libpq's word for the system's authorities."""
    pattern = re.compile(rf"([?&](?:{'|'.join(names)})=)(?!%2[Ff]|system(?:&|$))([^&#]+)")
    return pattern.sub(lambda match: match[1] + (match[2] if _ELSEWHERE.match(match[2]) else f"{quote(folder)}/{match[2]}"), address)
