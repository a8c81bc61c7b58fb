"""`opfilter`: messages of some ops alone."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.core.errors import BadConfig, BadInput
from headwater.pipeline.message import Op, op_named
from headwater.pipeline.strict import strict
from headwater.pipeline.transform import Apply, Transform, one_by_one


class OpFilter(Transform):
    """Made by `opfilter`."""

    keeps_id = True

    def __init__(self, passing: frozenset[Op], name: str) -> None:
        self.passing, self.name = passing, name

    def opened(self) -> Apply:
        passing = self.passing
        return one_by_one(self, lambda message: message if message.op in passing else None)


@strict
def opfilter(
    *,
    whitelist: Iterable[str] | None = None,
    blacklist: Iterable[str] | None = None,
    only: Iterable[str] | None = None,
    drop: Iterable[str] | None = None,
) -> Transform:
    """Pass messages by what they do: `opfilter(only=["insert", "update"])` or `opfilter(drop=["delete"])`. Those dropped count as taken.

    `whitelist` is another name of `only`, `blacklist` of `drop`. With both, a message passes that is in the first and not in the second.
    Names are written out: insert, update, delete, noop. Commands pass by every transform but `remap`, so by this one, too.
    """
    first, second = _one("only", only, "whitelist", whitelist), _one("drop", drop, "blacklist", blacklist)
    if first is None and second is None:
        raise BadConfig("opfilter says nothing.", hint='Give only=["insert", "update"] or drop=["delete"].')
    if second is not None and Op.COMMAND in second:
        raise BadConfig("opfilter cannot drop commands: they pass by it.", hint="Leave command out.")
    passing = frozenset(Op if first is None else first) - (second or frozenset())
    parts = [
        f"{word}={'+'.join(op.name.lower() for op in Op if op in ops)}"
        for word, ops in (("only", first), ("drop", second))
        if ops is not None
    ]
    return OpFilter(passing, f"opfilter({','.join(parts)})")


def _one(name: str, value: Iterable[str] | None, alias: str, other: Iterable[str] | None) -> frozenset[Op] | None:
    if value is not None and other is not None:
        raise BadConfig(f"{name} and {alias} are two names of one option.", hint=f"Give {name}.")
    chosen = value if value is not None else other
    if chosen is None:
        return None
    names = [chosen] if isinstance(chosen, str) else list(chosen)
    try:
        return frozenset(op_named(op_name) for op_name in names)
    except BadInput as error:
        raise BadConfig(f"opfilter: {error.message}", hint=error.hint) from error
