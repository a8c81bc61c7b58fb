"""Rules of tokens for documents: below which paths the holder reads, writes and follows.

A token without rules may do below its prefixes what its role allows. One with rules does nothing with documents that no rule names, and
reaches no address but theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from headwater.core.errors import Forbidden
from headwater.documents.follow_operations import FEED, FEED_LINES, TRANSACTION, TRANSACTIONS_LIST
from headwater.documents.index_operations import VIEWS
from headwater.documents.operations import BATCH, CONTENT_EXPORT, CONTENT_LIST, DOCUMENTS
from headwater.wire.operation import Operation

PathAction = Literal["read", "write", "follow"]
ACTIONS: Final[tuple[PathAction, ...]] = ("read", "write", "follow")
ADDRESSES: Final = (b"hyper-storage",)
"""What a token with rules reaches, where it has no prefixes of its own."""
_FOLLOWING: Final = frozenset((FEED, FEED_LINES))
_CHECKED_LATER: Final = frozenset((BATCH, TRANSACTION))
_WHOLE: Final = frozenset(VIEWS)  # a view shows what other paths hold


class PathRules(msgspec.Struct, frozen=True):
    """Paths of documents and collections, without a slash at their ends. Each stands for itself and for everything below it."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    follow: tuple[str, ...] = ()

    def allow(self, action: PathAction, path: str) -> bool:
        """Whether this may be done with a document, a collection, an item, or everything below a path that ends with a slash."""
        rules: tuple[str, ...] = getattr(self, action)
        named = path.removesuffix("/")
        return any(named == rule or named.startswith(f"{rule}/") for rule in rules)

    def check(self, action: PathAction, path: str) -> None:
        """Errors: `Forbidden`."""
        if not self.allow(action, path):
            raise Forbidden(
                f"The token may not {action} {path.removesuffix(chr(0)):.80}.",
                hint=f"Ask whoever runs the server for a token with {action}= and this path.",
            )


def check_rules(rules: PathRules | None, operation: Operation[Any, Any], variables: Mapping[str, str], query: Mapping[str, Any]) -> None:
    """See that a request keeps to the rules of its token. The lines of a batch are checked when they are read, and transactions when they
    are found: their ids tell no path. Errors: `Forbidden`."""
    if rules is None or operation.part != DOCUMENTS.name or operation in _CHECKED_LATER:
        return
    if operation in (CONTENT_LIST, CONTENT_EXPORT):
        rules.check("read", f"{query['prefix']}\0")  # `shop` lists shopping, too, and only `shop/` what is below shop
        return
    path = query["path"] if operation is TRANSACTIONS_LIST else None if operation in _WHOLE else variables.get("path")
    if path is None:
        raise Forbidden("The token may not ask of all documents.", hint="Ask whoever runs the server for a token without rules.")
    if operation.path.startswith(("/hyper-storage/indexes/", "/hyper-storage/schemas/")):  # where the ~ may be left out
        path = path if path.endswith("~") else f"{path}~"
    action: PathAction = "follow" if operation in _FOLLOWING else "write" if operation.changes else "read"
    rules.check(action, path)
