"""`headwater doc put | patch | post | delete | restore`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.doc_options import (
    Body,
    CollectionPath,
    DocPath,
    IdempotencyKey,
    IfAbsent,
    IfMatch,
    Ttl,
    json_body,
    json_text,
    resource_at,
    tag_of,
    told_write,
)
from headwater.cli.output import agreed, visible
from headwater.core.errors import NotFound
from headwater.documents.write import PatchKind


@command("dry_run", example="headwater doc put shop/catalogue~/hat '{\"price\": 12}'")
def put(
    path: DocPath,
    at: At,
    body: Body = None,
    if_match: IfMatch = None,
    if_absent: IfAbsent = False,
    ttl: Ttl = None,
    idempotency_key: IdempotencyKey = None,
) -> None:
    """Create or replace a document or an item, and print its revision once it is durable. Fields that are null are left out."""
    sent = json_body(body)
    if at.dry_run:
        _told_dry(at, path, "put", sent)
        return
    with resource_at(at, path, changes=True) as resource:
        done = resource.put(
            sent,
            if_match=tag_of(if_match),
            if_none_match="*" if if_absent else None,
            ttl=ttl,
            idempotency_key=idempotency_key,
        )
    told_write(at, done, "created" if done.created else "changed")


@command("dry_run", example="headwater doc patch shop/catalogue~/hat '{\"price\": null}'")
def patch(
    path: DocPath,
    at: At,
    body: Body = None,
    kind: Annotated[
        PatchKind, typer.Option("--kind", help="merge: null removes a field; operations: a list of RFC 6902; increment: numbers to add.")
    ] = "merge",
    if_match: IfMatch = None,
    ttl: Ttl = None,
    idempotency_key: IdempotencyKey = None,
) -> None:
    """Change fields of a document or an item, and print its revision once that is durable."""
    sent = json_body(body)
    if at.dry_run:
        _told_dry(at, path, "patch", sent)
        return
    with resource_at(at, path, changes=True) as resource:
        done = resource.patch(sent, kind=kind, if_match=tag_of(if_match), ttl=ttl, idempotency_key=idempotency_key)
    told_write(at, done, "changed")


@command("dry_run", example='headwater doc post shop/orders~ \'{"item": "hat"}\'')
def post(path: CollectionPath, at: At, body: Body = None, ttl: Ttl = None, idempotency_key: IdempotencyKey = None) -> None:
    """Add an item to a collection, under an id that is greater than every one before it, and print its path once it is durable."""
    sent = json_body(body)
    if at.dry_run:
        _told_dry(at, path, "post", sent)
        return
    with resource_at(at, path, changes=True) as resource:
        done = resource.post(sent, ttl=ttl, idempotency_key=idempotency_key)
    told_write(at, done, "created")


@command("yes", "dry_run", example="headwater doc delete shop/catalogue~/hat")
def delete(path: DocPath, at: At, if_match: IfMatch = None, idempotency_key: IdempotencyKey = None) -> None:
    """Delete a document, an item, or a collection with its items and indexes. Its revisions go on, and its history stays."""
    if at.dry_run:
        _told_dry(at, path, "delete", None)
        return
    if path.endswith("~") and not agreed(f"Delete the collection {visible(path)} with every item?", yes=at.yes):
        raise typer.Exit(1)
    with resource_at(at, path, changes=True) as resource:
        done = resource.delete(if_match=tag_of(if_match), idempotency_key=idempotency_key)
    told_write(at, done, "deleted")


@command("dry_run", example="headwater doc restore shop/settings 3")
def restore(
    path: DocPath,
    revision: Annotated[int, typer.Argument(metavar="REVISION", min=1, help="A revision that `doc history` shows.", show_default=False)],
    at: At,
    if_match: IfMatch = None,
) -> None:
    """Give a document or an item the state again that it had at a revision. That is a new revision."""
    with resource_at(at, path, changes=not at.dry_run) as resource:
        if at.dry_run:
            document = resource.get(revision=revision)
            at.answered(
                {"path": path, "body": document.body, "revision": revision, "dry_run": True},
                f"{path} would be as at revision {revision}: {visible(json_text(document.body))}",
            )
            return
        done = resource.restore(revision, if_match=tag_of(if_match))
    told_write(at, done, f"as it was at revision {revision}")


def _told_dry(at: At, path: str, verb: str, body: Any) -> None:
    """Print what a write would do, by what is there now."""
    from headwater.documents.path import parse_path

    named = parse_path(path)
    revision: int | None = None
    try:
        with resource_at(at, path) as resource:
            revision = resource.get().revision
    except NotFound:
        if verb in ("patch", "delete"):
            raise
    does = {"put": "replace" if revision is not None else "create", "patch": "change", "post": "add an item to", "delete": "delete"}[verb]
    now = f", which has revision {revision}" if revision is not None else ""
    answer = {"path": named.text, "method": verb, "revision": revision, "body": body, "dry_run": True}
    at.answered({name: value for name, value in answer.items() if value is not None}, f"Would {does} {named.text}{now}.")
