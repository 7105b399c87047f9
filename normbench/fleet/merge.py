"""Runs taken apart, joined into one: every record once, with the machine it was taken on, streamed from file to file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..errors import UsageError
from ..job.request import Request
from ..job.shard import Shard
from ..records.record import Record
from ..storage.store import RunWriter
from ..storage.stored_run import DEFAULT_ROOT, RunStatus, find_run
from .choice import Choice
from .source import Source

__all__ = ["merge_runs"]

BATCH = 256
"""Lines flushed at once: a flush takes milliseconds, and what is held meanwhile stays small."""


def merge_runs(runs: Sequence[Path | str], *, command: Sequence[str] = (), root: Path | str = DEFAULT_ROOT) -> Path:
    """Join runs, given by path or by name under `root`, into a new one under `root`, and return its path.

    Each record keeps its own machine. A record that is interrupted in one run and done in another is done; one that is done twice on
    one machine is refused. Runs that are shards of one list leave a run that can be resumed like one that was never taken apart. Its
    records are never all in memory. Raises UsageError for runs that cannot be joined, NormbenchError for one that cannot be read.
    """
    sources = _sources(runs, root)
    _refuse_another_plan(sources)
    choice = Choice()
    for source in sources:
        choice.add(source)
        _refuse_mixed_schemas(choice)
    choice.settle()
    families = _families(sources)
    missing = [(request, shard) for request, shards in families for shard in _missing(shards)]
    # Records of one machine need no name for it: what is joined of its shards is like a run that was never taken apart.
    is_one = len(choice.machines) < 2 and not any(source.info.machines for source in sources)
    first = sources[0].info
    commits = {source.info.git_commit for source in sources}
    writer = RunWriter.create(
        first.id.partition("-")[2].partition("-")[2] + "-merged",
        command=command,
        seed=first.seed,
        planned=sum(source.info.planned for source in sources) - choice.dropped + sum(_arms(*one) for one in missing),
        settings=_settings(sources, families),
        machine=first.machine if is_one else {},
        versions=first.versions if is_one else {},
        git_commit=commits.pop() if len(commits) == 1 else "unknown",
        notes=_notes(sources, choice, [shard for _, shard in missing]),
        root=root,
    )
    with writer:
        if not is_one:
            known = {name: machine for source in sources for name, machine in source.machines.items()}
            for name in choice.machines:
                writer.add_machine(name, known[name])
        for batch in _batches(_kept(sources, choice, is_one=is_one)):
            writer.append_lines(batch)
        return writer.finish(RunStatus.INCOMPLETE if choice.interrupted else RunStatus.COMPLETE)


def _sources(runs: Sequence[Path | str], root: Path | str) -> list[Source]:
    if len(runs) < 2:
        raise UsageError("there is nothing to join: name two runs or more")
    found = [Source(number, *find_run(run, root=root)) for number, run in enumerate(runs)]
    paths: dict[Path, None] = {}
    for source in found:
        if (path := source.path.resolve()) in paths:
            raise UsageError(f"run {source.path} is named twice: name each run once")
        paths[path] = None
    schemas = {source.info.schema: source for source in reversed(found)}
    if len(schemas) > 1:
        raise UsageError(_mixed("run.json", schemas))
    return found


def _refuse_another_plan(sources: Sequence[Source]) -> None:
    plans = [source.info.settings.get("plan", {}) for source in sources]
    for source, plan in zip(sources, plans, strict=True):
        for name in plans[0] | plan:
            if plan.get(name) != plans[0].get(name):
                raise UsageError(
                    f"run {source.name} was taken with {name} {plan.get(name)!r}, run {sources[0].name} with {plans[0].get(name)!r}: "
                    "only runs of one plan can be joined"
                )


def _refuse_mixed_schemas(choice: Choice) -> None:
    if len(choice.schemas) > 1:
        raise UsageError(_mixed("records", choice.schemas))


def _mixed(what: str, schemas: dict[int, Source]) -> str:
    told = " and ".join(f"schema {schema} (run {source.name})" for schema, source in sorted(schemas.items()))
    return f"{what} of {told} cannot be joined: take all runs with one version of normbench"


def _families(sources: Sequence[Source]) -> list[tuple[Request, list[Shard]]]:
    """Return each request that is not of a shard, or of which shards are there, with the shards that are."""
    families: list[tuple[Request, list[Shard]]] = []
    for source in sources:
        if source.request is None:
            continue
        whole = msgspec.structs.replace(source.request, shard=None, label="", command=(), root="", resume=None, choices=None)
        family = next((shards for known, shards in families if known == whole), None)
        if family is None:
            families.append((whole, family := []))
        if source.request.shard is not None:
            family.append(source.request.shard)
    return families


def _missing(shards: Sequence[Shard]) -> list[Shard]:
    """Return the shards that would make these the whole, if they are of one number of parts; there is no telling otherwise."""
    counts = {shard.count for shard in shards}
    if len(counts) != 1:
        return []
    (count,) = counts
    return [shard for index in range(1, count + 1) if (shard := Shard(index=index, count=count)) not in shards]


def _arms(request: Request, shard: Shard) -> int:
    return sum(len(group.arms) for group in msgspec.structs.replace(request, shard=shard).groups())


def _settings(sources: Sequence[Source], families: Sequence[tuple[Request, list[Shard]]]) -> dict[str, Any]:
    """Return the settings of the joined run; only what was asked for as one can be resumed as one."""
    settings = {name: value for name, value in sources[0].info.settings.items() if name != "request"}
    settings["merged"] = [source.info.id for source in sources]
    if len(families) == 1 and all(source.request is not None for source in sources):
        assert sources[0].request is not None
        settings["request"] = msgspec.to_builtins(msgspec.structs.replace(sources[0].request, shard=None, resume=None))
    return settings


def _notes(sources: Sequence[Source], choice: Choice, missing: Sequence[Shard]) -> list[str]:
    notes = [f"joined of {', '.join(source.name for source in sources)}"]
    if missing:
        notes.append(f"missing: shard {', '.join(shard.text for shard in missing)}")
    if len(commits := {source.info.git_commit for source in sources}) > 1:
        notes.append(f"taken with different commits of normbench: {', '.join(sorted(commits))}")
    if choice.came_along:
        notes.append(
            f"{choice.came_along} records of norms that came along with networks of several shards are kept from the first of them"
        )
    return notes + [f"{source.info.id}: {note}" for source in sources for note in source.info.notes]


def _kept(sources: Sequence[Source], choice: Choice, *, is_one: bool) -> Iterator[tuple[Record, bytes]]:
    """Yield the records that are kept, each with its line; one that does not name its machine is made to, unless there is only one."""
    for source in sources:
        for number, line, record in source.records():
            if not choice.keeps(source, number, record):
                continue
            if is_one or record.machine == (machine := source.machine_of(record)):
                yield record, line
            else:
                fields = msgspec.json.decode(line)
                yield msgspec.structs.replace(record, machine=machine), msgspec.json.encode(fields | {"machine": machine})


def _batches(lines: Iterator[tuple[Record, bytes]]) -> Iterator[list[tuple[Record, bytes]]]:
    batch: list[tuple[Record, bytes]] = []
    for one in lines:
        batch.append(one)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
