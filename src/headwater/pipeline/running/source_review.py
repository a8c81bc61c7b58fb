"""The source beside what earlier runs have planned and read of it: what is new is copied as well, what has changed is told.

Without this, a run would end with nothing read although its file names another source, or the source has more than it had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from headwater.core.errors import Differs, HeadwaterError, NotFound, Timeout, Unreachable, Unsupported
from headwater.core.ids import random_id
from headwater.pipeline.definition import Pipeline
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.offsets.ranges import joined
from headwater.pipeline.offsets.state import ReaderState
from headwater.pipeline.source_adaptor import CanCopy, CopyPlan, Slice
from headwater.pipeline.source_progress import CopySize
from headwater.pipeline.stored_definition import StoredDefinition

_NAMED = 3  # things that a sentence lists
_READ_ANEW = "`headwater pipeline run FILE --again` reads the source from its beginning, behind what is in the log"


class SourceReview:
    """Looks once, when a run begins. `notice` is given sentences for people."""

    def __init__(
        self, pipeline: Pipeline, before: StoredDefinition | None, *, slices: int, end: int, notice: Callable[[str], None]
    ) -> None:
        """`before`: the source as the last run knew it; None where an older version ran. `slices`, `end`: for a new plan, the log's end."""
        self._pipeline, self._before, self._slices, self._end, self._notice = pipeline, before, slices, end, notice
        self._name, self._chosen = pipeline.source_name, pipeline.namespaces
        self.differs: Differs | None = None  # what could not be taken in: raised when the rest is read

    def reviewed(self, state: ReaderState) -> ReaderState:
        """The state to go on with: the stored one, or with more to copy.

        Errors: `Differs` where this is another source, or where an unfinished copy does not fit it any more.
        """
        adaptor, plan = self._pipeline.reader, msgspec.convert(state.plan, CopyPlan)
        moved = self._before is not None and self._compare(self._before, StoredDefinition.of_source(self._pipeline), plan)
        if not isinstance(adaptor, CanCopy):
            return state
        if self._pipeline.follows and state.cursor is None:
            raise Differs(
                f"{self._name} was copied without tail=True, and what has changed since is not known.",
                hint=f"{_READ_ANEW} and then follows its changes; or leave tail=True out.",
            )
        wider = self._before is not None and self._before.namespaces != str(self._chosen)
        if moved and adaptor.replans and state.copied:  # it is known by its new place from now on
            fresh, names = self._planned(adaptor), {part.namespace for part in plan.slices}
            read = [part for part in fresh.slices if part.namespace in names]
            state = msgspec.structs.replace(self._extended(state, plan, (), fresh, read), finished=((0, len(read)),), copied=True)
            plan = msgspec.convert(state.plan, CopyPlan)
        if adaptor.replans and (not self._pipeline.follows or wider):
            state = self._with_new(adaptor, state, plan)
            plan = msgspec.convert(state.plan, CopyPlan)
        if not state.copied and not adaptor.same(plan, self._chosen):
            raise changed_source(self._name)
        return state

    def again(self, state: ReaderState, wanted: str) -> ReaderState:
        """The state in which some namespaces are to be copied anew. Changes go on where they were.

        Errors: `NotFound` where the source has no such namespace; `Unsupported` where its namespaces cannot be copied one by one.
        """
        adaptor, plan = self._pipeline.reader, msgspec.convert(state.plan, CopyPlan)
        if not isinstance(adaptor, CanCopy) or (self._pipeline.follows and adaptor.joins == "never") or not adaptor.replans:
            raise Unsupported(f"{adaptor} cannot copy one namespace anew.", hint="Read all of it anew: `--again` without a namespace.")
        fresh = self._planned(adaptor)
        names = list(dict.fromkeys(part.namespace for part in fresh.slices))
        chosen = {wanted} if wanted in names else {name for name in names if name in Namespaces(wanted)}
        if not chosen:
            raise NotFound(f"{self._name} has no namespace {wanted} to copy.", hint=f"It has {_listed(names) or 'none'}.")
        kept = [number for number, part in enumerate(plan.slices) if part.namespace not in chosen]
        made = self._extended(state, plan, kept, fresh, [part for part in fresh.slices if part.namespace in chosen])
        return msgspec.structs.replace(made, plan={**made.plan, "identity": msgspec.to_builtins(fresh.identity)})

    # -- the definition -------------------------------------------------------------------------------------

    def _compare(self, before: StoredDefinition, now: StoredDefinition, plan: CopyPlan) -> bool:
        """Tell what the file says now and did not; whether the source is at another place. Errors: `Differs` for another source."""
        adaptor = self._pipeline.reader
        if now.adaptor != before.adaptor:
            same_kind = now.adaptor.partition("(")[0] == before.adaptor.partition("(")[0]
            if isinstance(adaptor, CanCopy) and not (same_kind and adaptor.same(plan, self._chosen)):
                raise Differs(
                    f"The source of {self._pipeline.name} is {now.adaptor} now, and was {before.adaptor}.",
                    hint=f"{_READ_ANEW}. Or put the old source back, or give the pipeline another name.",
                )
            self._notice(f"The source is {now.adaptor} now, and was {before.adaptor}. Reading goes on where it was.")
        if now.name != before.name:
            self._notice(f"The source is named {now.name} now, and was {before.name}. It is the same source, so nothing is read anew.")
        if options := now.options_beside(before):
            listed = ", ".join(options)
            self._notice(f"Options of {now.name} have changed: {listed}. They hold for what is read from now on; {_READ_ANEW}.")
        if now.namespaces != before.namespaces:
            left = [name for name in dict.fromkeys(part.namespace for part in plan.slices) if name not in self._chosen]
            lost = f" What was read of {_listed(left)} stays in the log and at the sinks." if left else ""
            self._notice(f"{now.name} reads the namespaces {now.namespaces} now, and read {before.namespaces}.{lost}")
        return now.adaptor != before.adaptor

    # -- what the source has --------------------------------------------------------------------------------

    def _planned(self, adaptor: CanCopy) -> CopyPlan:
        """A plan for all that is there. Makes nothing at the source, whose cursor is known already."""
        reader = msgspec.structs.replace(adaptor, tail=False) if getattr(adaptor, "tail", False) else adaptor
        return reader.plan(self._chosen, self._slices)

    def _with_new(self, adaptor: CanCopy, state: ReaderState, plan: CopyPlan) -> ReaderState:
        try:
            fresh = self._planned(adaptor)
        except (Unreachable, Timeout) as error:
            if not state.copied:
                raise
            self._notice(f"Whether {self._name} has something new is not known: {error.message}")
            return state
        except HeadwaterError as error:  # nothing that could be read is left; an unfinished copy tells it
            if state.copied:
                self._notice(
                    f"{self._name} cannot be read any more: {error.message} What was read of it stays in the log and at the sinks."
                )
            return state
        known = dict(adaptor.unit(part) for part in plan.slices)
        changed = {name: part.namespace for part in fresh.slices for name, mark in [adaptor.unit(part)] if known.get(name, mark) != mark}
        new = [part for part in fresh.slices if part.size != 0 and adaptor.unit(part)[0] not in known]
        if changed and state.copied:
            names = list(dict.fromkeys(changed.values()))
            have, their = ("has", "its") if len(changed) == 1 else ("have", "their")
            self.differs = Differs(
                f"{_listed(changed)} {have} changed since {their} copy.",
                hint=f"Copy it anew: `headwater pipeline run FILE --again {names[0]}`; or all: `--again`."
                " Sinks that upsert then hold the new documents; files get them a second time.",
            )
        if not new:
            return state
        joining = _listed(dict.fromkeys(part.namespace for part in new))
        if self._pipeline.follows and adaptor.joins == "never":
            raise Differs(f"{self._name} now has {joining}, too, which is not copied yet.", hint=f"{_READ_ANEW}, with the new ones.")
        if self._pipeline.follows and adaptor.joins == "followed":
            self._notice(f"{self._name} has {joining} now, too. It is read from its beginning.")
            return state
        things = list(dict.fromkeys(adaptor.unit(part)[0] for part in new))
        self._notice(f"{self._name} has {_listed(things)} now, too. It is copied as well.")
        return self._extended(state, plan, range(len(plan.slices)), fresh, new)

    def _extended(self, state: ReaderState, plan: CopyPlan, kept: Sequence[int], fresh: CopyPlan, new: Sequence[Slice]) -> ReaderState:
        """The state of a plan with some of its slices, under new numbers, and with new ones behind them.

        It is another copy, by its id: pieces in the log are known by the old numbers.
        """
        slices = (*(plan.slices[number] for number in kept), *new)
        finished = {number for a, b in state.finished for number in range(a, b)}
        numbers = {str(old): str(at) for at, old in enumerate(kept)}
        done = [at for at, old in enumerate(kept) if old in finished]
        exact = all(part.size is not None for part in slices)
        size = CopySize(total=sum(part.size or 0 for part in slices), unit=fresh.size.unit) if exact and fresh.size else fresh.size
        made = msgspec.structs.replace(
            fresh,
            identity=fresh.identity if state.copied else _merged(fresh.identity, plan.identity),
            slices=slices,
            ids={**plan.ids, **fresh.ids},
            size=size if size is None or plan.size is None or size.unit == plan.size.unit else None,
            repeats=plan.repeats or fresh.repeats,
        )
        return msgspec.structs.replace(
            state,
            run=random_id(),
            plan=msgspec.to_builtins(made),
            begun=self._end,
            upto=self._end,
            positions={numbers[n]: position for n, position in state.positions.items() if n in numbers},
            amounts={numbers[n]: amount for n, amount in state.amounts.items() if n in numbers},
            finished=tuple(joined((at, at + 1) for at in done)),
            amount=sum(slices[at].size or 0 for at in done) if exact else state.amount,
            copied=False,
            ended=0,
        )


def changed_source(name: str) -> Differs:
    """The error of a source that does not fit the unfinished copy of it."""
    return Differs(
        f"The source {name} has changed since its copy began.",
        hint="Put it back as it was, or read it anew from its beginning with `headwater pipeline run FILE --again`.",
    )


def _merged(fresh: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """What is known of earlier parts stays: by it, a change of one of them is still noticed."""
    merged = {**fresh, **known}
    both = [name for name in fresh.keys() & known.keys() if isinstance(fresh[name], dict) and isinstance(known[name], dict)]
    return merged | {name: {**fresh[name], **known[name]} for name in both}


def _listed(names: Iterable[str]) -> str:
    """Some names, and how many more there are."""
    every = list(names)
    more = len(every) - _NAMED
    return ", ".join(every[:_NAMED]) + (f" and {more} more" if more > 0 else "")
