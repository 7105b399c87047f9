"""The pytest plugin: `pytest --benchmark-only` measures the suites with normbench's engine and shows pytest-benchmark's table.

pytest-benchmark keeps its whole interface (save, compare, JSON, histogram): it is handed the engine's samples by a timer that replays
them. Nothing here imports torch before a benchmark is about to run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .job.run import Runner
    from .measure.group import Arm, Group
    from .measure.rotating import Live
    from .records.record import Record

__all__ = ["REPLAY", "ReplayTimer"]

_EXIT_USAGE = 4
_WHOLE = ("threads", "seed", "tokens", "accumulation", "nproc", "global_batch")
_KINDS: dict[str, Callable[[str], Any]] = dict.fromkeys(_WHOLE, int) | dict.fromkeys(("budget", "sustain", "timeout"), float)
"""What the words of options other than text are turned into."""
_FIXTURES = {
    "op": ("normbench_group", "normbench_provider"),
    "model": ("normbench_network", "normbench_arm"),
    "throughput": ("normbench_workload", "normbench_workload_arm"),
}
"""What the test of a tier's suite asks for: a group, and the name of one of its arms."""


class ReplayTimer:
    """A timer whose successive pairs of readings are the given samples apart."""

    def __init__(self) -> None:
        self._readings: Iterator[float] = iter(())
        self._now = 0.0

    def load(self, samples_s: list[float]) -> None:
        """Replay these samples, in seconds, from the next reading on."""

        def readings() -> Iterator[float]:
            for sample in samples_s:
                yield 0.0
                yield sample

        self._readings = readings()

    def __call__(self) -> float:
        # pytest-benchmark may probe a timer's precision; unloaded, this one is a coarse clock that moves.
        self._now += 1e-9
        return next(self._readings, self._now)


REPLAY = ReplayTimer()
"""The timer that suites name in `pytest.mark.benchmark(timer=REPLAY)`."""


def pytest_addoption(parser: pytest.Parser) -> None:
    from .text.choices import HELP, fields, option_name

    group = parser.getgroup("normbench", "normbench: LayerNorm and RMSNorm benchmarks (with --benchmark-only)")
    for name, default in fields():
        if name == "resume":
            group.addoption("--nb-resume", dest="nb_resume", nargs="?", const="latest", default=None, help=HELP[name], metavar="RUN")
            continue
        if isinstance(default, bool):
            group.addoption(f"--nb-{option_name(name)}", dest=f"nb_{name}", action="store_true", default=default, help=HELP[name])
            continue
        kind = _KINDS.get(name, str)
        group.addoption(f"--nb-{option_name(name)}", dest=f"nb_{name}", type=kind, default=default, help=HELP[name])


def _choices(config: pytest.Config) -> Any:
    from .text.choices import Choices, fields

    return Choices(**{name: config.getoption(f"nb_{name}") for name, _ in fields()})


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for tier, fixtures in _FIXTURES.items():
        if fixtures[0] in metafunc.fixturenames:
            groups = metafunc.config.stash[_SELECTION_KEY].groups(metafunc.config)
            chosen = [(group, name) for group in groups if group.case.tier == tier for name in group.names]
            metafunc.parametrize(fixtures, chosen, ids=[f"{group.id}-{name}" for group, name in chosen])


class _Narrator:
    """Tell on pytest's terminal how far measuring is: one test may wait a minute for the cases that are measured with its own."""

    def __init__(self, config: pytest.Config) -> None:
        self._reporter = config.pluginmanager.get_plugin("terminalreporter")
        self._capture = config.pluginmanager.get_plugin("capturemanager")
        self._total = self._done = 0

    def started(self, groups: Sequence[Group], done: int) -> None:
        self._total, self._done = len(groups), done

    def group_started(self, group: Group) -> None:
        pass

    def block_done(self, live: Live) -> None:
        pass

    def group_done(self, group: Group, records: Sequence[Record]) -> None:
        self._done += 1
        if self._reporter is not None and self._capture is not None and not self._reporter.config.option.verbose < 0:
            with self._capture.global_and_fixture_disabled():
                self._reporter.ensure_newline()
                self._reporter.write_line(f"normbench: {self._done} of {self._total} cases measured, {group.id}")


class _Selection:
    """What the options ask for and what collection left of it; the Runner that measures it once benchmarks begin."""

    def __init__(self) -> None:
        self._request: Any = None
        self.runner: Runner | None = None

    def groups(self, config: pytest.Config) -> list[Group]:
        """Return the groups of the options. Raises pytest.UsageError for words that do not fit."""
        from .errors import UsageError
        from .job.request import make_request

        if self._request is None:
            try:
                self._request = make_request(_choices(config), command=["pytest", *config.invocation_params.args])
            except UsageError as error:
                raise pytest.UsageError(f"normbench: {error}") from None
        return list(self._request.groups())

    def start(self, items: list[pytest.Item], config: pytest.Config) -> None:
        """Start measuring processes and the run for the items that collection selected. Raises NormbenchError."""
        import msgspec

        from .job.run import Runner

        chosen: dict[str, Group] = {}
        for item in items:
            group, name = (item.callspec.params[fixture] for fixture in _fixtures_of(item))  # type: ignore[attr-defined]
            known = chosen.get(group.id, msgspec.structs.replace(group, arms=()))
            chosen[group.id] = msgspec.structs.replace(known, arms=(*known.arms, _arm(group, name)))
        runner = Runner(self._request, _Narrator(config), groups=list(chosen.values()))
        self.runner = runner.__enter__()
        self._chosen = chosen

    def measure(self, group: Group, name: str) -> Record:
        assert self.runner is not None
        key = group.record_key(_arm(group, name))
        return next(record for record in self.runner.measure(self._chosen[group.id]) if record.key == key)

    def finish(self, interrupted: bool) -> None:
        runner, self.runner = self.runner, None
        if runner is not None:
            error = KeyboardInterrupt() if interrupted else None
            runner.__exit__(type(error) if error else None, error, None)


def _fixtures_of(item: pytest.Item) -> tuple[str, ...]:
    """Return the names of a benchmark's group and arm, none of another test."""
    asked = getattr(item, "fixturenames", ())
    return next((fixtures for fixtures in _FIXTURES.values() if fixtures[0] in asked), ())


def _arm(group: Group, name: str) -> Arm:
    return next(arm for arm in group.arms if arm.name == name)


_SELECTION_KEY = pytest.StashKey[_Selection]()
_RUN_PATH_KEY = pytest.StashKey[str]()
_NOTE_KEY = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_SELECTION_KEY] = _Selection()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let a first run with --benchmark-compare-fail become the baseline: pytest-benchmark would end it with a usage error."""
    benchmarks = getattr(session.config, "_benchmarksession", None)
    if benchmarks is not None and benchmarks.compare_fail and benchmarks.compare and not benchmarks.compared_mapping:
        benchmarks.compare_fail = []
        benchmarks.save = benchmarks.save or "baseline"
        session.config.stash[_NOTE_KEY] = "no baseline: nothing was compared, and this run was saved as the first one"


def _benchmarks(session: pytest.Session) -> list[pytest.Item]:
    return [item for item in session.items if _fixtures_of(item) and not any(mark.name == "skip" for mark in item.iter_markers())]


def pytest_collection(session: pytest.Session) -> None:
    """Refuse options that do not fit before anything is collected: an error raised while collecting would be one among others."""
    if session.config.getoption("benchmark_only"):
        session.config.stash[_SELECTION_KEY].groups(session.config)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse bad input and start the run, before the first benchmark."""
    from .errors import NormbenchError

    config = session.config
    items = _benchmarks(session)
    if not items or config.getoption("collectonly") or config.getoption("benchmark_disable"):
        return
    if getattr(config.option, "numprocesses", None) or hasattr(config, "workerinput"):
        pytest.exit("normbench: benchmarks cannot share the machine with each other: run without -n (pytest-xdist)", returncode=_EXIT_USAGE)
    try:
        config.stash[_SELECTION_KEY].start(items, config)
    except NormbenchError as error:
        pytest.exit(f"normbench: {error}", returncode=_EXIT_USAGE)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    selection = session.config.stash[_SELECTION_KEY]
    if selection.runner is not None:
        session.config.stash[_RUN_PATH_KEY] = str(selection.runner.run_path)
        selection.finish(interrupted=exitstatus == pytest.ExitCode.INTERRUPTED)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    path = config.stash.get(_RUN_PATH_KEY, None)
    if path is not None:
        terminalreporter.write_sep("-", "normbench")
        terminalreporter.write_line(f"run: {path}")
        terminalreporter.write_line(f"report: normbench report {path}")
        if _NOTE_KEY in config.stash:
            terminalreporter.write_line(config.stash[_NOTE_KEY])


def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    """Add what normbench knows of the machine to pytest-benchmark's JSON, when benchmarks ran."""
    selection = config.stash[_SELECTION_KEY]
    if selection.runner is not None or _RUN_PATH_KEY in config.stash:
        from .host.machine import machine_identity, machine_record

        machine_info["normbench_machine"] = machine_identity(machine_record())


@pytest.fixture
def normbench_measure(benchmark: Any, request: pytest.FixtureRequest) -> Callable[[Group, str], Record]:
    """Measure one arm of a group, by its name, and hand its samples to pytest-benchmark; skip or fail with the record's reason."""
    from .quantities.stats import pooled_samples
    from .records.record import Status

    selection = request.config.stash[_SELECTION_KEY]

    def measure(group: Group, name: str) -> Record:
        if selection.runner is None:
            pytest.skip("benchmarks are disabled")
        record = selection.measure(group, name)
        benchmark.group = group.id
        benchmark.extra_info.update(
            status=record.status.value,
            reason=record.reason,
            case=record.case_id,
            conditions=record.conditions.id,
            provider=record.provider,
            first_call_s=record.first_call_s,
            run=str(selection.runner.run_path),
        )
        if record.status in (Status.WRONG, Status.ERROR, Status.INTERRUPTED):
            pytest.fail(f"{record.status.value}: {record.reason}", pytrace=False)
        if record.measurement is None:
            pytest.skip(f"{record.status.value}: {record.reason}")
        samples = pooled_samples(record.measurement)
        REPLAY.load(samples)
        benchmark.pedantic(_nothing, rounds=len(samples), iterations=1)
        return record

    return measure


def _nothing() -> None:
    """Stand where pytest-benchmark expects the work; the work was timed before."""
