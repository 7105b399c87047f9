"""`normbench gate`: was it made slower? Base and head side by side, with a known error rate."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import UsageError
from .options import Device, Dtype, ErrorRate, Margin, Norm, Pass, Seed, Threads
from .paths import require_file_place, write_file
from .show import AsJson, show_table

if TYPE_CHECKING:
    from ..cases.conditions import Conditions
    from ..gate.conduct import Observer, Question
    from ..gate.outcome import Outcome
    from ..gate.trees import Tree

__all__ = ["conditions_of", "gate", "place_of"]


def gate(
    context: typer.Context,
    base: Annotated[str, typer.Option(help="Git ref that head is compared with: a branch, a tag or a commit.")] = "",
    base_dir: Annotated[Path | None, typer.Option(help="Folder that head is compared with, instead of a ref.")] = None,
    base_python: Annotated[Path | None, typer.Option(help="Python that base runs in, to compare two versions of torch, say.")] = None,
    head: Annotated[Path, typer.Option(help="Folder of the version to be judged.")] = Path("."),
    cases: Annotated[str, typer.Option(help="Case ids, a grid (see `normbench list grids`), or shapes.")] = "quick",
    provider: Annotated[str, typer.Option(help="Whose code is gated: names, files or modules of both trees.")] = "eager,aten,compile",
    base_provider: Annotated[str, typer.Option(help="On one tree: the provider that --head-provider is compared with.")] = "",
    head_provider: Annotated[str, typer.Option(help="On one tree: the provider to be judged.")] = "",
    norm: Norm = "layer_norm,rms_norm",
    pass_: Pass = "forward",
    dtype: Dtype = "float32",
    device: Device = "cpu",
    threads: Threads = 1,
    margin: Margin = "2%",
    error_rate: ErrorRate = "1%",
    budget: Annotated[str, typer.Option(help="Time for the whole run, such as 90s or 5m.")] = "5m",
    instructions: Annotated[bool, typer.Option(help="Also count the instructions of a call, as information.")] = False,
    allow_missing: Annotated[str, typer.Option(help="Cases that head may lack, as the table names them.")] = "",
    seed: Seed = 0,
    out: Annotated[Path, typer.Option(help="Folder that gate runs are kept in.")] = Path(".normbench/gates"),
    markdown: Annotated[Path | None, typer.Option(help="Also write the outcome as Markdown to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare this checkout with a base; exit 0: pass, 1: slower or wrong, 3: invalid, 4: missing. Runs the base's code."""
    if context.invoked_subcommand is not None:
        return
    require_file_place("--markdown", markdown)
    from ..gate.archive import Archive
    from ..gate.conduct import Question, conduct
    from ..gate.instructions import with_instructions
    from ..gate.interpreter import find_interpreter
    from ..gate.markdown import markdown as as_markdown
    from ..gate.one_process import OneProcess
    from ..gate.outcome import RunEnd, to_json
    from ..gate.policy import Policy
    from ..gate.two_processes import TwoProcesses
    from ..gate.words import candidates, cases_of, controls, seconds, share
    from ..host.machine import machine_record, package_versions
    from ..host.threads import validate_threads
    from ..text.choices import split

    specs = _specs(provider, base_provider, head_provider, has_base=bool(base or base_dir or base_python))
    policy = Policy(margin=share(margin, "margin"), error_rate=share(error_rate, "error-rate"))
    chosen = cases_of(cases, norms=split(norm), passes=split(pass_), dtypes=split(dtype))
    validate_threads(threads)
    budget_s = seconds(budget, "budget")
    interpreter = None if base_python is None else find_interpreter(base_python)
    with ExitStack() as stack:
        trees = stack.enter_context(_trees(base, base_dir, head))
        machine = machine_record()
        about = {
            "command": ["normbench", *sys.argv[1:]],
            "base": trees[0].label,
            "head": trees[1].label,
            "policy": policy,
            "seed": seed,
            "budget_s": budget_s,
            "machine": machine,
            "versions": package_versions(),
            "base_python": interpreter,
        }
        archive = stack.enter_context(Archive(out, about))
        question = Question(
            base=trees[0],
            head=trees[1],
            candidates=candidates(chosen, specs),
            controls=controls(),
            conditions=conditions_of(device, threads),
            policy=policy,
            budget_s=budget_s,
            seed=seed,
            log=archive.path / "worker.log",
            allowed_missing=tuple(split(allow_missing)),
            arena=OneProcess if interpreter is None else partial(TwoProcesses, base_python=interpreter),
        )
        with _watched(question, archive) as observer:
            outcome = conduct(question, observer)
            archive.conclude(outcome)
            if instructions and outcome.end is RunEnd.COMPLETE:
                observer.phase("counting instructions", len(question.candidates))
                outcome = with_instructions(
                    outcome, question.candidates, question.setup, base_python=interpreter, log=question.log, observe=observer.step
                )
                archive.conclude(outcome)
    text = as_markdown(outcome, base=trees[0].label, head=trees[1].label, machine=place_of(machine, question.conditions))
    if as_json:
        typer.echo(to_json(outcome).decode(), nl=False)
    else:
        _show(outcome, archive.path)
    if markdown is not None:
        write_file(markdown, text.encode())
    if outcome.exit_code:
        raise typer.Exit(int(outcome.exit_code))


def _specs(provider: str, base_provider: str, head_provider: str, *, has_base: bool) -> list[tuple[str, str]]:
    from ..text.choices import split

    if bool(base_provider) != bool(head_provider):
        raise UsageError("--base-provider and --head-provider go together: name both, or neither")
    if base_provider:
        if base_provider == head_provider:
            raise UsageError(f"--base-provider and --head-provider are both {base_provider!r}: there is nothing to compare")
        return [(base_provider, head_provider)]
    if not has_base:
        raise UsageError("no base: give --base REF, --base-dir FOLDER, --base-python PYTHON, or --base-provider and --head-provider")
    specs = split(provider)
    if not specs:
        raise UsageError("no provider was named: give one such as aten, or a file such as ./kernels.py")
    return [(spec, spec) for spec in specs]


@contextmanager
def _trees(base: str, base_dir: Path | None, head: Path) -> Iterator[tuple[Tree, Tree]]:
    from ..gate.trees import checked_out, folder_tree

    if base and base_dir is not None:
        raise UsageError("--base and --base-dir both name a base: give one")
    tree = folder_tree(head)
    if base:
        with checked_out(base, repository=head) as other:
            yield other, tree
    elif base_dir is not None:
        yield folder_tree(base_dir), tree
    else:
        yield tree, tree


def conditions_of(device: str, threads: int) -> Any:
    """Return the conditions of a gate's blocks. Raises UsageError for a device that is none, or several."""
    from ..cases.conditions import Conditions
    from ..job.request import one_device_name

    return Conditions(device=one_device_name(device), threads=threads)


def place_of(machine: dict[str, Any], conditions: Conditions) -> str:
    """Return where and how blocks were taken, in words."""
    return f"{machine['cpu_model']} with {machine['cores']} cores, {conditions.id}"


@contextmanager
def _watched(question: Question, archive: Any) -> Iterator[Observer]:
    """Yield an observer that keeps blocks on disk and shows on stderr how far the run is, a bar where it is a terminal."""
    from ..gate.conduct import Observer
    from ..screen.bar import make_bar, make_screen

    screen = make_screen()
    decided = 0
    with make_bar(screen, budget_s=question.budget_s) as bar:
        task = bar.add_task("", total=None)
        doing = ""

        def phase(what: str, total: int) -> None:
            nonlocal doing
            doing = what
            screen.print(f"{what} …")
            bar.update(task, total=total or None, completed=0, description=what)

        def step(what: str) -> None:
            bar.update(task, advance=1, description=f"{doing}, {decided} of {len(question.candidates)} decided: {what}")

        def on_decided(candidate: str, decision: Any) -> None:
            nonlocal decided
            decided += not candidate.endswith("@control")
            figure = "" if decision.ratio is None else f"  {decision.ratio:.3f} times base"
            screen.print(f"{candidate}  {decision.verdict.value}{figure}", soft_wrap=True)

        yield Observer(phase=phase, step=step, block=archive.append, decided=on_decided)


def _show(outcome: Outcome, path: Path) -> None:
    from ..gate.markdown import columns, reasons_of, rows

    typer.echo(outcome.sentence)
    show_table(columns(outcome), rows(outcome))
    for line in (*reasons_of(outcome), *outcome.notes):
        typer.echo(line)
    typer.echo(f"kept: {path}")
