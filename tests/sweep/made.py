"""Questions, headers and entries made by hand, and an engine that answers without a process."""

from __future__ import annotations

from normbench.measure.checking import Begun, CheckResult, CheckTask
from normbench.measure.process import OutOfMemory
from normbench.records.record import Status
from normbench.sweep.journal import Header
from normbench.sweep.limit import Limit
from normbench.sweep.question import Question
from normbench.sweep.turns import TurnsResult, TurnsTask
from normbench.workloads.throughput import throughput_cases

NORMS = ("layer_norm", "rms_norm")


def question(*, norms=NORMS, modes=("train",), providers=("eager", "aten"), **numbers):
    start = [numbers.get("start", 1)]
    cases = throughput_cases(networks=["gpt2"], preset="tiny", modes=modes, norms=norms, dtypes=["float32"], trained=start, served=start)
    return Question(cases=cases, providers=providers, device="cpu", threads=1, **numbers)


def header(asked=None):
    limit = Limit(limit_bytes=2**29, words="a process may map 512 MiB")
    asked = question() if asked is None else asked
    return Header(question=asked, limit=limit, torch="2.13.0", machine="a machine", command=("normbench", "sweep"))


class FakeEngine:
    """Fit arms by themselves up to `room` of their name, and together up to that over how many they are; a token takes a millisecond.

    `wrong` are the names of arms whose check fails, `failures` what a turn of (name, batch) raises instead. `asked` keeps the tasks.
    """

    def __init__(self, room, *, wrong=(), failures=None):
        self._room = room
        self._wrong = wrong
        self._failures = failures or {}
        self.asked = []
        self.loaded = []

    def load_networks(self, cases):
        self.loaded += cases

    def run_task(self, task, argument):
        self.asked.append(argument)
        if isinstance(argument, CheckTask):
            (name,) = argument.providers
            status = Status.WRONG if name in self._wrong else Status.OK
            reason = "off by 1" if name in self._wrong else None
            return [Begun(name), CheckResult(provider=name, status=status, reason=reason), Begun(None)]
        assert isinstance(argument, TurnsTask), task
        batch = argument.case.size[0]
        for name in argument.arms:
            if (name, batch) in self._failures:
                raise self._failures[name, batch]
            if batch * len(argument.arms) > self._room[name]:
                raise OutOfMemory("can't allocate memory")
        # Processes differ by a little, arms do not.
        call_s = 1e-3 * argument.case.tokens * (1 + 1e-3 * (argument.seed // 1000))
        return [TurnsResult(samples_s=dict.fromkeys(argument.arms, (call_s, call_s)), spent_s=10.0, peak_bytes=batch * 1000)]

    def tried(self, name):
        """Return the batches that an arm was tried at by itself, each once, in order."""
        alone = [one.case.size[0] for one in self.asked if isinstance(one, TurnsTask) and one.arms == (name,)]
        return list(dict.fromkeys(alone))
