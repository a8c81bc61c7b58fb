"""The errors of documents, a branch of the tree in `headwater.core.errors`.

HeadwaterError
 ├ BadInput       400  exit 5
 │  ├ BadFilter        a filter or an order of a query cannot be read
 │  ├ BadPath          no document can have this path
 │  └ UnfitBody   422  a body cannot be the state of its document or item, or a patch cannot be applied
 ├ NotFound       404  exit 3
 │  ├ DocumentNotFound code not_found
 │  └ UnknownIndex     code index-not-found
 ├ Conflict       409  exit 4
 │  ├ CollectionPut    a collection is not replaced as a whole; code collection-put-not-implemented
 │  ├ NotMatched  412  If-Match, If-None-Match or a test of a patch does not hold
 │  └ ViewModification a view is written through the documents that it shows; code view_modification
 └ Unavailable    503  exit 6
    └ QueryLimited 504 a query read more than it may
       ├ QueryCountLimited   code query-count-limited
       ├ QueryTimeout        code query-timeout
       └ SkippedRowsLimited  code query-skipped-rows-limited
"""

from __future__ import annotations

from headwater.core.errors import BadInput, Conflict, NotFound, Unavailable


class BadFilter(BadInput):
    """A filter or an order of a query cannot be read."""


class BadPath(BadInput):
    """No document, collection or item can have this path."""


class UnfitBody(BadInput):
    """A body cannot be the state of its document or item, or a patch cannot be applied to it."""

    status = 422


class DocumentNotFound(NotFound, code="not_found"):
    """There is no such document, collection or item, or it is deleted."""


class UnknownIndex(NotFound, code="index-not-found"):
    """The collection has no index of this name."""


class CollectionPut(Conflict, code="collection-put-not-implemented"):
    """A collection is not replaced as a whole."""


class NotMatched(Conflict):
    """If-Match, If-None-Match or the `test` of a JSON Patch does not hold. Nothing changed."""

    status = 412


class ViewModification(Conflict, code="view_modification"):
    """A view shows other documents: those are written, not the view."""


class QueryLimited(Unavailable):
    """A query read more than it may. The hint names the index that would help."""

    status = 504


class QueryCountLimited(QueryLimited, code="query-count-limited"):
    """A query took too many reads of the store."""


class QueryTimeout(QueryLimited, code="query-timeout"):
    """A query took too long."""


class SkippedRowsLimited(QueryLimited, code="query-skipped-rows-limited"):
    """A query read too many rows that it does not return."""
