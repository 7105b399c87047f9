"""Two made-up runs: the same work twice, on a machine whose mood may have changed, with what a test changes in the second."""

from zlib import crc32

import msgspec
import synthetic

from normbench.cases.case import Case
from normbench.records.record import ALLOCATE, COPY

CASES = [Case.make("rms_norm", "forward", (2**power, 1024), "float32") for power in range(6, 12)]
PROVIDERS = ("eager", "aten")
A, B = 1, 2
"""Seeds of two runs: other samples of the same times."""


def records(seed, *, cases=CASES, providers=PROVIDERS, mood=1.0, noise=0.002, processes=8, times=None, **changes):
    """Return the records of a run; every time is `mood` times as long, and that of a provider in `times` so many times as long again."""
    found = []
    for case in cases:
        for name in (*providers, COPY, ALLOCATE):
            time_s = 1e-9 * case.numel * mood * (times or {}).get(name, 1.0)
            taken = synthetic.measurement(time_s, seed=seed + crc32(case.id.encode()), name=name, noise=noise, processes=processes)
            found.append(synthetic.record(case, name, measurement=taken, **changes))
    return found


def run(records, **changes):
    """Return a run of these records; changes of `machine`, `versions` and `settings` are added to what every run has."""
    known = {"machine": synthetic.MACHINE, "versions": synthetic.VERSIONS, "settings": synthetic.SETTINGS}
    merged = {name: known[name] | value if name in known else value for name, value in changes.items()}
    return synthetic.run(records, **merged)


def changed(records, provider, **fields):
    """Return the records with fields of one provider's changed."""
    return [msgspec.structs.replace(one, **fields) if one.provider == provider else one for one in records]
