"""Runs on disk with made-up records, as shards and machines would leave them."""

from __future__ import annotations

import msgspec
import synthetic

from normbench.job.request import make_request
from normbench.job.shard import Shard
from normbench.records.record import Status
from normbench.storage.store import RunWriter
from normbench.text.choices import Choices

ELSEWHERE = synthetic.MACHINE | {"cpu_model": "Another CPU 1"}


def request(shard=None, grid="8x64,16x64,32x64", budget=8.0, provider="aten"):
    choices = Choices(grid=grid, provider=provider, norm="rms_norm,layer_norm", pass_="forward", threads=1, budget=budget)
    return make_request(choices, command=["normbench", "run"], shard=Shard.parse(shard) if shard else None)


def records_of(asked, status=Status.OK):
    """Return a record for each arm of a request, and the controls of each group that was measured."""
    reason = None if status.is_measured else "the run was stopped before this was measured"
    found = []
    for group in asked.groups():
        names = [arm.provider for arm in group.arms] + (["copy"] if status.is_measured else [])
        found += [synthetic.record(group.case, name, conditions=group.conditions, status=status, reason=reason) for name in names]
    return found


def write_run(root, asked, records=None, *, machine=synthetic.MACHINE, label="seed", planned=None, **changes):
    """Write a run of a request: all its records unless some are given; return its path."""
    builtins = msgspec.to_builtins(asked)
    fields = {
        "command": ["normbench", "run"],
        "seed": 0,
        "planned": sum(len(group.arms) for group in asked.groups()) if planned is None else planned,
        "settings": {"plan": builtins["plan"], "conditions": [], "request": builtins},
        "machine": machine,
        "versions": synthetic.VERSIONS,
        "git_commit": "a" * 40,
        "root": root,
    }
    with RunWriter.create(label, **(fields | changes)) as writer:
        records = records_of(asked) if records is None else records
        if records:
            writer.append(*records)
    return writer.path
