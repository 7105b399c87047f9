"""Runs written by hand, for the tests of writing and of reading them."""

from __future__ import annotations

import synthetic

from normbench.cases.case import Case
from normbench.storage.store import RunWriter

CASE = Case.make("rms_norm", "forward", (4, 128, 512), "float32")
RECORDS = synthetic.group(CASE)
assert len(RECORDS) == 5, "three providers, two controls"


def create(root, planned=3, label="seed") -> RunWriter:
    return RunWriter.create(
        label,
        command=synthetic.COMMAND,
        seed=0,
        planned=planned,
        settings=synthetic.SETTINGS,
        machine=synthetic.MACHINE,
        versions=synthetic.VERSIONS,
        root=root,
    )


def write(root, records=RECORDS, **options) -> RunWriter:
    with create(root, **options) as writer:
        for record in records:
            writer.append(record)
    return writer
