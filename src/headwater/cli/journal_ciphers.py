"""`headwater journal erase | rotate | key`: the keys of encrypted journals."""

from __future__ import annotations

from typing import Annotated

import typer

from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.journal_care import Why
from headwater.cli.journal_options import JournalId, JournalTopic, journal_at, topic_at
from headwater.cli.output import agreed, counted, visible


@command("yes", "dry_run", example="headwater journal erase bank alice --why 'request 4711'")
def erase(
    topic: JournalTopic,
    id: JournalId,
    at: At,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, which the audit keeps.", show_default=False)],
) -> None:
    """Remove a journal of an encrypted topic and destroy its keys: nobody can read its events any more."""
    with journal_at(at, topic, id, changes=True) as journal:
        erased = journal.erase(why=why, dry_run=True)
        if not at.dry_run and erased.done:
            question = f"Erase journal {visible(id)} with {counted(erased.events, 'event')}, for good?"
            if not agreed(question, yes=at.yes):
                raise typer.Exit(1)
            erased = journal.erase(why=why)
    if not erased.done:
        at.answered(erased, f"There is nothing of journal {visible(id)} to erase.")
        return
    would = "would be" if at.dry_run else "is"
    keys = f"{counted(erased.keys, 'key')} {'would be' if at.dry_run else 'is' if erased.keys == 1 else 'are'} destroyed"
    at.answered(erased, f"Journal {visible(id)} {would} gone, with {counted(erased.events, 'event')}; {keys}.")
    if erased.clear:
        at.note(
            f"{counted(erased.clear, 'event')} of it {'was' if erased.clear == 1 else 'were'} never encrypted: the log holds the bytes "
            "until it is deleted that far (setting journal.keep)."
        )
    if not at.dry_run:
        at.note("Backups of the key store still hold the keys, wrapped. `headwater journal rotate --help` says what makes them useless.")


@command("dry_run", example="headwater journal rotate bank --why 'yearly'")
def rotate(topic: JournalTopic, at: At, why: Why = "") -> None:
    """Wrap the keys of a topic's journals with the newest master key. Once every topic is done, older master keys can be destroyed: what
    they wrapped in backups of the key store is then useless."""
    with topic_at(at, topic, changes=True) as journals:
        done = journals.rotate(why=why, dry_run=at.dry_run)
    would = "would be" if at.dry_run else "is" if done.rewrapped == 1 else "are"
    at.answered(done, f"{counted(done.rewrapped, 'key')} of {counted(done.keys, 'key')} {would} wrapped anew, by master key {done.master}.")


@command(example="headwater journal key 2027-01 >> master.keys")
def key(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the key, which no other one has.", show_default=False)],
    at: At,
) -> None:
    """Print a line with a new master key, for the file that the setting journal.key_file names. It is kept nowhere else."""
    from headwater.journal.master_keys import new_master_key

    line = new_master_key(name)
    at.answered({"name": name, "line": line}, line)
