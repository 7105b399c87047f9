"""What claims are held against: studies on disk or run now, records of runs or measured now. Asked for once, kept for all claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from ..cases.case import Case, Tier
from ..cases.conditions import Conditions
from ..cases.model_case import ModelCase
from ..cases.throughput_case import ThroughputCase
from ..cases.tiers import AnyCase
from ..host.threads import available_cores
from ..job.request import Request
from ..job.run import execute
from ..storage.stored_run import read_run
from ..studies.catalogue import study
from ..studies.conduct import observe_all
from ..studies.journal import JOURNALS
from ..studies.observation import Observation, Setting
from ..studies.study import Scale
from ..text.choices import Choices, words_of
from .sources import Found, Group, Source, Turns, Wanted, best_found, sources_of

__all__ = ["Context", "Observed"]

Observed = tuple[Setting, tuple[Observation, ...]]
"""What the trials of a study have in common, and what they gave."""

QUICK_NUMEL = 2**25
"""The largest op case of a quick evaluation: 32 Mi elements take a second to check."""


class Context:
    """Give evaluators their observations and results.

    `studies` is the folder of studies; one that is not there is run now if its trials are short. `runs` are runs whose records are used
    where those of one machine, with one software and plan, have all that is wanted; otherwise it is measured now, into `root`, cases of
    the op tier up to a size and none of whole networks if `quick`. `say` hears what goes on.
    """

    def __init__(self, *, studies: Path, runs: Iterable[str] = (), root: Path, quick: bool, say: Callable[[str], None]) -> None:
        self._studies = studies
        self._root = root
        self.quick = quick
        self._say = say
        self._observed: dict[str, Observed | str] = {}
        runs = tuple(dict.fromkeys(runs))
        self._are_runs_named = bool(runs)
        self._named = [source for one in runs for source in sources_of(read_run(one, root=root))]
        self._measured: list[Source] = []

    def observed(self, name: str) -> Observed | str:
        """Return a study's observations, or why there are none."""
        if name not in self._observed:
            self._observed[name] = self._observe(name)
        return self._observed[name]

    def _observe(self, name: str) -> Observed | str:
        found, path = study(name), self._studies / name
        if path.is_dir():
            header, observations = JOURNALS.read(path)
            return header.common, observations
        if found.is_long:
            return f"waits for the study: `normbench study {name} --out {self._studies}` takes long"
        self._say(f"study {name}")
        plan = found.plan(Scale(quick=True))
        return plan.common, tuple(observe_all(found, plan.trials, plan.common))

    def results(
        self, turns: Iterable[Turns], providers: tuple[str, ...], *, device: str = "cpu", threads: int = 1
    ) -> tuple[Group, ...] | str:
        """Return a group for each of `turns`, cases that take turns, by all providers: all groups of comparable sources.

        Where no such sources have a time or a lawful refusal for everything, it is measured, once. Where that is not done, the answer says
        why. A group is empty where nothing is known of it. The op cases of networks are measured along with them.
        """
        wanted = Wanted(turns=tuple(turns), providers=providers, conditions=Conditions(device=device, threads=threads))
        found = self._found(wanted)
        # What another machine lacks is not measured beside it: all of it is measured here, but for what was before.
        missing = tuple(case for one in self._unmeasured(wanted) for case in one) if found.unsettled else ()
        if not missing:
            return found.groups
        for tier in (Tier.MODEL, Tier.THROUGHPUT):
            if self.quick and any(case.tier is tier for case in missing):
                return f"waits for the {tier} tier: {self._remedy(found, missing, wanted)}"
        if self.quick and any(isinstance(case, Case) and case.numel > QUICK_NUMEL for case in missing):
            return f"waits for a case too large for --quick: {self._remedy(found, missing, wanted)}"
        self._say(f"measuring {', '.join(case.id for case in missing)}")
        request = Request(label="claims", cases=missing, providers=providers, device=device, threads=threads, root=str(self._root))
        path, _ = execute(request)
        self._measured += sources_of(read_run(path))
        return self._found(wanted).groups

    def _found(self, wanted: Wanted) -> Found:
        return best_found([*self._named, *self._measured], wanted)

    def _unmeasured(self, wanted: Wanted) -> list[Turns]:
        """Return what was not measured in this evaluation yet, however that ended."""
        done = {
            (one.record.case, one.record.provider)
            for source in self._measured
            for one in source.results
            if one.record.conditions == wanted.conditions
        }
        return [turns for turns in wanted.turns if not {(case, provider) for case in turns for provider in wanted.providers} <= done]

    def _remedy(self, found: Found, missing: Sequence[AnyCase], wanted: Wanted) -> str:
        """Return what gives a quick evaluation the results that it lacks, and what the runs that were named lack."""
        providers, conditions = wanted.providers, wanted.conditions
        lacking = found.unsettled[0][0]
        asked = f"{lacking.id} by {' and '.join(providers)} at {conditions.id}"
        of_it = [
            one for source in self._named for one in source.results if one.record.case == lacking and one.record.conditions == conditions
        ]
        why = f"the runs named by --run have no {asked}; " if self._are_runs_named else ""
        if of_it:
            why = f"what the runs named by --run have of {asked} was not timed, not in turns, or not on one machine with the rest; "
        said = {**_choice(missing), "provider": ",".join(providers), "device": conditions.device, "threads": conditions.threads}
        command = " ".join(["normbench run", *words_of(Choices(**said), always=said)])
        return f"{why}evaluate without --quick, or name the run of `{command}` by --run"

    @property
    def cores(self) -> int:
        return available_cores()


def _choice(cases: Sequence[AnyCase]) -> dict[str, Any]:
    """Return what chooses these cases, with both norms, by field of `Choices`: short where the cases are those of networks."""
    networks = [case for case in cases if isinstance(case, ModelCase | ThroughputCase)]
    if len(networks) < len(cases):
        return {"case": ",".join(case.id for case in cases)}
    parts = {"network": [case.network for case in networks], "preset": [case.preset for case in networks]}
    parts["pass_"] = [case.pass_.value for case in networks if isinstance(case, ModelCase)]
    served = [case for case in networks if isinstance(case, ThroughputCase)]
    parts |= {"mode": [case.mode.value for case in served], "batch": [str(case.size[0]) for case in served]}
    return {"tier": networks[0].tier.value} | {name: ",".join(dict.fromkeys(words)) for name, words in parts.items() if words}
