"""What claims are held against: studies on disk or run now, records of runs or measured now. Asked for once, kept for all claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ..case import Case, Tier
from ..conditions import Conditions
from ..measure.threads import available_cores
from ..model_case import ModelCase
from ..record import Role
from ..request import Request
from ..results import Result, derive_results
from ..run import execute
from ..stored_run import read_run
from ..studies.catalogue import study
from ..studies.conduct import observe_all
from ..studies.journal import JOURNALS
from ..studies.observation import Observation, Setting
from ..studies.study import Scale
from ..throughput_case import ThroughputCase
from ..tiers import AnyCase

__all__ = ["Context", "Observed"]

Observed = tuple[Setting, tuple[Observation, ...]]
"""What the trials of a study have in common, and what they gave."""

QUICK_NUMEL = 2**25
"""The largest op case of a quick evaluation: 32 Mi elements take a second to check."""


class Context:
    """Give evaluators their observations and results.

    `studies` is the folder of studies; one that is not there is run now if its trials are short. `runs` are runs whose records are used
    where they have a case under the wanted conditions; other cases are measured now, into `root`, those of the op tier up to a size and
    none of whole networks if `quick`. `say` hears what goes on.
    """

    def __init__(self, *, studies: Path, runs: Iterable[str] = (), root: Path, quick: bool, say: Callable[[str], None]) -> None:
        self._studies = studies
        self._root = root
        self.quick = quick
        self._say = say
        self._observed: dict[str, Observed | str] = {}
        self._results: list[Result] = []
        runs = tuple(dict.fromkeys(runs))
        self._are_runs_named = bool(runs)
        for one in runs:
            self._results += derive_results(read_run(one, root=root).records)

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

    def results(self, cases: Iterable[AnyCase], providers: tuple[str, ...], *, device: str = "cpu", threads: int = 1) -> list[Result] | str:
        """Return the results of all known records, after measuring those of the cases that are not there yet, or why they are not measured.

        The op cases of networks are measured along with them.
        """
        conditions = Conditions(device=device, threads=threads)
        missing = tuple(case for case in cases if not all(self._has(case, provider, conditions) for provider in providers))
        if not missing:
            return self._results
        for tier in (Tier.MODEL, Tier.THROUGHPUT):
            if self.quick and any(case.tier is tier for case in missing):
                return f"waits for the {tier} tier: {self._remedy(missing, providers, conditions)}"
        if self.quick and any(isinstance(case, Case) and case.numel > QUICK_NUMEL for case in missing):
            return f"waits for a case too large for --quick: {self._remedy(missing, providers, conditions)}"
        self._say(f"measuring {', '.join(case.id for case in missing)}")
        request = Request(label="claims", cases=missing, providers=providers, device=device, threads=threads, root=str(self._root))
        path, _ = execute(request)
        self._results += derive_results(read_run(path).records)
        return self._results

    def _remedy(self, missing: Sequence[AnyCase], providers: tuple[str, ...], conditions: Conditions) -> str:
        """Return what gives a quick evaluation the results that it lacks, and whether runs were named that lack them."""
        why = (
            f"the runs named by --run have no {missing[0].id} by {' and '.join(providers)} at {conditions.id}; "
            if self._are_runs_named
            else ""
        )
        wanted = f"normbench run {_choice(missing)} --provider {','.join(providers)}"
        where = f"--device {conditions.device} --threads {conditions.threads}"
        return f"{why}evaluate without --quick, or name the run of `{wanted} {where}` by --run"

    def _has(self, case: AnyCase, provider: str, conditions: Conditions) -> bool:
        return self.result(case, provider, conditions) is not None

    def result(self, case: AnyCase, provider: str, conditions: Conditions) -> Result | None:
        """Return the result of a case by a provider, None where no run that is known has one."""
        for one in self._results:
            record = one.record
            if (record.case, record.provider, record.conditions, record.role) == (case, provider, conditions, Role.PROVIDER):
                return one
        return None

    @property
    def cores(self) -> int:
        return available_cores()


def _choice(cases: Sequence[AnyCase]) -> str:
    """Return the options of `normbench run` that choose these cases, with both norms: short where the cases are those of networks."""
    networks = [case for case in cases if isinstance(case, ModelCase | ThroughputCase)]
    if len(networks) < len(cases):
        return f"--case {','.join(case.id for case in cases)}"
    parts = {"network": [case.network for case in networks], "preset": [case.preset for case in networks]}
    parts["pass"] = [case.pass_.value for case in networks if isinstance(case, ModelCase)]
    served = [case for case in networks if isinstance(case, ThroughputCase)]
    parts |= {"mode": [case.mode.value for case in served], "batch": [str(case.size[0]) for case in served]}
    chosen = [f"--{name} {','.join(dict.fromkeys(words))}" for name, words in parts.items() if words]
    return " ".join([f"--tier {networks[0].tier.value}", *chosen])
