"""The house keeps its shape: imports point down, pure modules stay pure, few read a clock, and loading is cheap."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import normbench

ROOT = Path(normbench.__file__).parent
MAX_LINES = 320

PURE_PACKAGES = {"cases", "quantities", "records", "results", "text"}
PURE = {"errors", "kernels.launch", "measure.plan"}
PURE |= {f"inspection.{name}" for name in ("budget", "devices", "difference", "figures", "machine_code", "ptx", "scope", "tables")}
PURE |= {"checkup.pairs", "checkup.plan", "checkup.verdict"}
PURE |= {"comparison.difference", "comparison.drift", "distributed.global_batch", "sweep.entry", "sweep.search"}
PURE |= {f"tuning.{name}" for name in ("candidates", "devices", "model", "ranking", "tables")}
PURE |= {f"profile.{name}" for name in ("costs", "events", "kinds", "parts", "summary")}
PURE |= {f"gate.{name}" for name in ("decide", "flips", "markdown", "outcome", "peers", "policy", "simulation")}
PURE |= {f"gate.{name}" for name in ("trial_report", "validation")}
"""Plain values in, plain values out: they can be read, tested and trusted without a device, a clock or a file."""
EFFECTS = {"torch", "triton", "time", "datetime", "os", "subprocess", "pathlib", "socket", "random", "resource", "shutil", "tempfile"}

CLOCKS = {
    "measure.timer": "times calls: the only clock around timed work",
    "measure.sampler": "times what comes before a sample, to share the budget out",
    "measure.checking": "times the first call",
    "measure.network_checking": "times the first call",
    "measure.block": "times set-up to share the budget out; stamps blocks with the time of day",
    "measure.measurer": "counts the budget",
    "measure.group": "stamps records with the date",
    "host.load": "relates the CPU time of others to the time that passed",
    "host.power": "relates energy to the time that passed",
    "measure.sustain": "counts the seconds that an arm is called for",
    "host.watch": "says when each moment was",
    "measure.coverage": "tells how long the study runs",
    "measure.overhead": "times empty calls the way other tools do",
    "gate.conduct": "counts the budget",
    "gate.archive": "names gate runs with the date",
    "gate.two_processes": "stamps blocks with the time of day",
    "distributed.measurer": "counts the budget; stamps blocks with the time of day",
    "distributed.session": "gives what the processes say to each other a deadline",
    "fleet.ray_cluster": "gives a node's task a deadline",
    "fleet.scaling": "tells how long running beyond one process takes",
    "gate.trials": "names validations and stamps their runs with the date",
    "job.run": "stamps records that were never reached with the date",
    "storage.store": "names and stamps runs with the date",
}
"""Who reads a clock, and what for. Whoever joins says why."""

TALKERS = {
    "screen.bar": "makes the screen of all progress",
    "job.progress": "shows the progress of a run",
    "screen.terminal": "makes the console of all tables",
    "throughput": "is a command: what torchrun starts",
    "distributed.agent": "is a command: what starts torchrun's ranks",
    "fleet.scaling": "is a developer's command",
    "measure.coverage": "is a developer's command",
    "measure.overhead": "is a developer's command",
    "tuning.command": "is a developer's command",
}
"""Who but the command line writes on a terminal, and what for."""

FLOORS = [
    (
        "a report and a comparison measure nothing",
        ("report", "comparison"),
        ("measure", "workloads", "kernels", "oracle", "job"),
    ),
    ("the main job does not write its report", ("job",), ("report",)),
    ("the engine keeps no run", ("measure", "checkup", "profile", "inspection", "distributed"), ("storage",)),
    ("networks know no run", ("models",), ("storage.store", "storage.stored_run", "records", "results")),
]
"""Who never imports whom, although it would be a way down."""


def modules() -> dict[str, Path]:
    """Return every module by its dotted name within the package; a package has the name of its folder, the root none."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()
PURE |= {name for name in MODULES if name.partition(".")[0] in PURE_PACKAGES}


@cache
def tree_of(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text(), MODULES[name].name)


def run_time_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes but those that only a type checker sees."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from run_time_nodes(child)


def relative_imports(name: str) -> set[str]:
    """Return the modules of the package that a module imports, at its top or inside a function."""
    package = name.split(".") if MODULES[name].name == "__init__.py" and name else name.split(".")[:-1]
    found = set()
    for node in run_time_nodes(tree_of(name)):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = package[: len(package) - (node.level - 1)] + (node.module or "").split(".")
        home = ".".join(part for part in base if part)
        found |= {f"{home}.{alias.name}".strip(".") if f"{home}.{alias.name}".strip(".") in MODULES else home for alias in node.names}
    return found


def absolute_imports(name: str) -> set[str]:
    """Return the top-level names that a module imports from outside the package."""
    found = set()
    for node in run_time_nodes(tree_of(name)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            assert node.module is not None
            found.add(node.module.partition(".")[0])
    return found


def test_imports_are_seen():
    # The rest of this file rests on it: one import of each kind.
    assert "measure.timer" in relative_imports("measure.sampler")
    assert "workloads.op" in relative_imports("measure.process"), "inside a function"
    assert "torch" in absolute_imports("measure.block"), "inside a function"
    assert "time" in absolute_imports("measure.timer"), "from time import"
    assert "host.power" in MODULES


def test_no_import_goes_in_a_circle():
    order = TopologicalSorter({name: relative_imports(name) & MODULES.keys() for name in MODULES if name}).static_order()
    assert len(list(order)) >= len(MODULES) - 1


def top_of(name: str) -> str:
    """Return the package, or the module beside the packages, that a module belongs to."""
    return name.partition(".")[0]


TOPS = {top_of(name) for name in MODULES if name}


def test_no_package_imports_one_that_imports_it():
    uses: dict[str, set[str]] = {top: set() for top in TOPS}
    for name in MODULES:
        uses.get(top_of(name), set()).update(top_of(used) for used in relative_imports(name) if top_of(used) in TOPS - {top_of(name)})
    assert set(TopologicalSorter(uses).static_order()) == TOPS


def floors_of_the_guide() -> list[list[str]]:
    """Return the packages, and the modules beside them, floor by floor from the lowest, as CONTRIBUTING.md has them."""
    page = (ROOT.parent / "CONTRIBUTING.md").read_text()
    _, _, *rows = page[page.index("| floor |") :].partition("\n\n")[0].splitlines()
    return [re.findall(r"`(\w+)/?`", row) for row in rows]


def test_guide_names_every_package_and_every_module_beside_them_once():
    assert sorted(name for floor in floors_of_the_guide() for name in floor) == sorted(TOPS)


def test_imports_point_down_the_floors_of_the_guide():
    level = {name: number for number, floor in enumerate(floors_of_the_guide()) for name in floor}
    uses = {(name, used) for name in MODULES if name for used in relative_imports(name) if used}
    assert {(name, used) for name, used in uses if level[top_of(used)] > level[top_of(name)]} == set()


@pytest.mark.parametrize("name", sorted(PURE))
def test_pure_module_imports_only_pure_ones_and_no_effects(name):
    assert relative_imports(name) <= PURE
    assert not absolute_imports(name) & EFFECTS


@pytest.mark.parametrize(("rule", "whoever", "never"), FLOORS, ids=[rule for rule, *_ in FLOORS])
def test_some_never_import_others(rule, whoever, never):
    def is_among(name: str, prefixes: tuple[str, ...]) -> bool:
        return any(name == prefix.rstrip(".") or name.startswith(prefix.rstrip(".") + ".") for prefix in prefixes)

    members = [name for name in MODULES if is_among(name, whoever)]
    assert members
    assert {name: wrong for name in members if (wrong := {used for used in relative_imports(name) if is_among(used, never)})} == {}


@pytest.mark.parametrize("top", ["cli", "plugin"])
def test_nobody_imports_the_top(top):
    # throughput is a command too: what torchrun starts.
    outside = [name for name in MODULES if name.partition(".")[0] not in (top, "throughput")]
    assert outside
    assert [name for name in outside if any(used.partition(".")[0] == top for used in relative_imports(name))] == []


def test_whoever_writes_on_a_terminal_says_why():
    ways = {"print", "typer.echo", "sys.stdout.write", "sys.stderr.write", "Console", "console", "make_screen"}

    def calls(name: str) -> set[str]:
        return {ast.unparse(node.func) for node in run_time_nodes(tree_of(name)) if isinstance(node, ast.Call)}

    assert {name for name in MODULES if top_of(name) != "cli" and calls(name) & ways} == TALKERS.keys()


def test_whoever_reads_a_clock_says_what_for():
    assert {name for name in MODULES if absolute_imports(name) & {"time", "datetime", "timeit"}} == CLOCKS.keys()


def test_date_is_not_used_to_measure():
    # Outside the engine, and what watches the machine meanwhile, there is the date only: no perf_counter, no monotonic, no time.time.
    # The gate counts its budget, as several processes that train do, and a fleet the time that a lost node may keep it waiting, and
    # what running there costs.
    counting = {"distributed.measurer", "gate.conduct", "fleet.ray_cluster", "fleet.scaling"}
    assert {name for name in MODULES if "time" in absolute_imports(name) and not name.startswith(("measure.", "host."))} == counting


@pytest.mark.parametrize("name", sorted(MODULES))
def test_package_does_not_import_itself_by_name(name):
    # Two versions of it live in one process under two names: that of the change and that of its base.
    assert "normbench" not in absolute_imports(name)


@pytest.mark.parametrize("name", sorted(MODULES))
def test_module_holds_one_idea(name):
    assert len(MODULES[name].read_text().splitlines()) <= MAX_LINES


def test_every_public_name_resolves_and_is_listed():
    assert sorted(normbench.__all__) == dir(normbench)
    for name in normbench.__all__:
        assert getattr(normbench, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = normbench.no_such_name


@pytest.mark.parametrize("name", sorted(name for name in MODULES if name))
def test_names_that_a_module_offers_are_its_own(name):
    offered: list[str] = []
    defined: set[str] = set()
    for node in tree_of(name).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
            defined |= names
            if "__all__" in names:
                offered = ast.literal_eval(node.value)
    assert set(offered) <= defined


# What loads them must not cost seconds: every pytest run in an environment with the plugin, `normbench --help`, a script that reads runs.
@pytest.mark.parametrize(
    "module", ["normbench", "normbench.plugin", "normbench.cli", "normbench.results.derived", "normbench.measure.plan"]
)
def test_import_loads_nothing_heavy(module):
    code = f"import sys, {module}; print(*sorted({{'torch', 'triton', 'pandas', 'matplotlib', 'scipy.stats'}} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == []
