"""A profile in the terminal."""

from rich.console import Console
from watched_steps import MODULES, event, profile_of, step, training_step

from normbench.cases.case import Case
from normbench.cases.traffic import bytes_moved
from normbench.profile.kinds import ModuleKind
from normbench.profile.summary import Basis, Module
from normbench.profile.tables import ROWS, profile_tables
from normbench.quantities.units import DASH, number


def shown(profile, width=200):
    console = Console(width=width)
    with console.capture() as captured:
        console.print(profile_tables(profile, "made up"))
    return captured.get().splitlines()


def cells(lines, first):
    """Return the cells after the first of the row that begins with it."""
    (row,) = (line for line in lines if line.split("  ")[0].strip() == first)
    return row.replace(first, "", 1).split()


def test_a_training_step_has_a_column_for_each_phase():
    lines = shown(profile_of(training_step(), plain_s=100))
    assert lines[0] == "made up"
    assert cells(lines, "kind of module") == ["calls", "forward", "s", "backward", "s", "share"]
    assert cells(lines, "feed-forward") == ["1", "20.0", "35.0", "55", "%"]
    assert cells(lines, "aten::mm") == ["1", DASH, "28.0", "28", "%"]


def test_a_forward_has_no_column_for_what_it_does_not_do():
    lines = shown(profile_of([step(0, 10), event("module", "", 0, 10), event("module", "norm", 0, 2)], plain_s=10))
    assert cells(lines, "kind of module") == ["calls", "forward", "s", "share"]
    assert cells(lines, "other") == ["1", "8.00", "80", "%"]


def test_device_and_host_have_columns_of_their_own():
    lines = shown(profile_of(training_step(kernels=True), basis=Basis.DEVICE, plain_s=100))
    heads = "calls host forward s host backward s device forward s device backward s kernels share of device"
    assert cells(lines, "operator") == heads.split()
    assert cells(lines, "aten::mm") == ["1", DASH, "28.0", DASH, "18.0", "1", "46", "%"]


def test_modules_stand_under_those_they_are_in():
    events = [step(0, 10), event("module", "", 0, 10), event("module", "h.0", 0, 6), event("module", "h.0.ln", 0, 2)]
    modules = {path: Module(class_name="Block", kind=ModuleKind.OTHER) for path in ("", "h", "h.0", "h.0.ln")}
    lines = shown(profile_of(events, modules, plain_s=10))
    start = next(index for index, line in enumerate(lines) if line.startswith("module"))
    indented = [line.partition("  1")[0].partition(f"  {DASH}")[0].rstrip() for line in lines[start + 1 : start + 5]]
    assert indented == ["(the network)", "h", "  *", "    ln"]


def test_operators_past_the_longest_are_one_row_and_none_is_lost():
    events = [step(0, 1000), *(event("operator", f"aten::op{index}", 10 * index, 10 * index + 5) for index in range(ROWS + 5))]
    lines = shown(profile_of(events, {}, plain_s=1000))
    # Of the operators and what is between them, all but the longest.
    assert cells(lines, "(6 others)") == ["6", "30.0", "3.0", "%"]


def test_norms_have_a_table_with_shapes_bytes_and_bandwidth():
    case = Case.make("layer_norm", "forward", (1024, 1024), "float32")
    norm = Module(class_name="LayerNorm", kind=ModuleKind.NORM, norm_cases=(case,))
    lines = shown(profile_of(training_step(), MODULES | {"norm": norm}, plain_s=1e-2))
    row = next(line.split() for line in lines if line.startswith("norm ") and "1024x1024" in line)
    gbps = number(bytes_moved(Case.make("layer_norm", "forward_backward", (1024, 1024), "float32")) / 2.6e-3 / 1e9)
    assert row == ["norm", "layer_norm", "1024x1024", "float32", "1", "1.00", "1.60", "26", "%", "20.0", "MiB", gbps]


def test_a_narrow_terminal_has_a_block_for_each_module():
    lines = [line.rstrip() for line in shown(profile_of(training_step(), plain_s=100), width=40)]
    start = lines.index("feed-forward")
    assert lines[start + 1 : start + 5] == ["calls       1", "forward s   20.0", "backward s  35.0", "share       55 %"]
