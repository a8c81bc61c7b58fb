"""`remap`: messages under other namespaces."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec.structs import replace

from headwater.core.errors import BadConfig
from headwater.pipeline.message import Message
from headwater.pipeline.strict import strict
from headwater.pipeline.transform import Apply, Transform, one_by_one


class Remap(Transform):
    """Made by `remap`."""

    keeps_id = True
    takes_commands = True

    def __init__(self, mapping: dict[str, str], regex: bool) -> None:
        self.mapping, self.regex = mapping, regex
        self.name = f"remap({','.join(f'{old}→{new}' for old, new in mapping.items())})"

    def opened(self) -> Apply:
        known = {} if self.regex else dict(self.mapping)  # every namespace is looked up in the expressions once
        patterns = [(re.compile(old), new) for old, new in self.mapping.items()] if self.regex else []

        def renamed(namespace: str) -> str:
            for pattern, new in patterns:
                if pattern.search(namespace):
                    return pattern.sub(new, namespace, count=1)
            return namespace

        def call(message: Message) -> Message:
            name = known.get(message.namespace)
            if name is None:
                name = known[message.namespace] = renamed(message.namespace)
            return message if name == message.namespace else replace(message, namespace=name)

        return one_by_one(self, call)


@strict
def remap(mapping: Mapping[str, str], *, regex: bool = False) -> Transform:
    """Change namespaces: `remap({"public.orders": "orders"})`. Others stay as they are; the log keeps the source's names.

    With `regex=True` the left sides are Python's regular expressions: the first one found in the name decides, and what it matched is
    replaced, with `\\1` or `\\g<name>` for its groups: `remap({r"^public\\.": "shop."}, regex=True)`.
    """
    if not isinstance(mapping, Mapping) or not mapping:
        raise BadConfig(f"remap: {mapping!r} names no namespaces.", hint='Give old and new names: remap({"public.orders": "orders"}).')
    for old, new in mapping.items():
        if not isinstance(old, str) or not isinstance(new, str) or not new:
            raise BadConfig(f"remap: {old!r} cannot become {new!r}.", hint="Namespaces are texts, and not empty.")
        if regex:
            try:
                re.compile(old)
                re.sub(f"{old}|", new, "", count=1)  # always finds something, so that the replacement is looked at, too
            except (re.error, IndexError) as error:
                raise BadConfig(
                    f"remap: {old!r} → {new!r} is no regular expression and its replacement: {error}.",
                    hint=r'Write \ before a sign that stands for itself, such as r"\(", or leave regex=True out.',
                ) from error
    return Remap(dict(mapping), regex)
