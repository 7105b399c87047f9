"""Made-up runs of the throughput tier: arms that take turns, the network without norms, and what each did by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zlib import crc32

import msgspec
import synthetic

from normbench.cases.conditions import Conditions, Parallel
from normbench.cases.metric import tokens_metric
from normbench.cases.throughput_case import ThroughputCase
from normbench.records.measurement import Measurement, Memory, Ranks, Sustained
from normbench.records.record import NO_NORM, Record, Role

COUNTER = "rapl package-0"
TIMES = {
    ("layer_norm", "aten"): 10e-3,
    ("layer_norm", "compile"): 9e-3,
    ("rms_norm", "aten"): 9.5e-3,
    ("rms_norm", "compile"): 8e-3,
}
"""Seconds of a call: compile is ahead of aten by a ninth or more, RMSNorm of LayerNorm by a twentieth or more."""


def measurement(time_s: float, **fields: Any) -> Measurement:
    """Return samples of single calls, as the tier takes them."""
    taken = synthetic.measurement(time_s, **fields)
    blocks = tuple(msgspec.structs.replace(block, inner=1) for block in taken.blocks)
    return msgspec.structs.replace(taken, blocks=blocks)


def sustained(calls: int = 100, duration_s: float = 1.0, *, moments: int = 4, **fields: Any) -> Sustained:
    """Return a run of an arm by itself, its calls evenly spread over its moments; `series` of changes is added to the calls."""
    at_s = tuple(duration_s * (number + 1) / moments for number in range(moments))
    series: dict[str, tuple[float | None, ...]] = {"calls": tuple(float(round(calls * at / duration_s)) for at in at_s)}
    fields = {"energy_j": 20.0, "energy_source": COUNTER} | fields
    return Sustained(duration_s=duration_s, calls=calls, at_s=at_s, series=series | fields.pop("series", {}), **fields)


def group(
    mode: str = "decode",
    *,
    network: str = "gpt2",
    size: tuple[int, int] = (2, 64),
    times: Mapping[tuple[str, str], float] = TIMES,
    without: float | None = 7e-3,
    conditions: Conditions = synthetic.CPU,
    noise: float = 0.001,
    seed: int = 0,
    processes: int = 5,
    case: Mapping[str, Any] | None = None,
    **changes: Any,
) -> list[Record]:
    """Return the records of a group: arms by (norm, provider), and with `without` seconds the network without norms."""
    found = []
    for (norm, provider), time_s in times.items():
        made = ThroughputCase.make(network, "tiny", norm, mode, size, **(case or {}))
        fields = {"memory": Memory(peak_bytes=2**29, saved_bytes=2**28 if mode == "train" else None), "sustained": sustained()} | changes
        taken = _taken(made, norm + provider, time_s, noise, seed, processes)
        group_id = f"{made.company}@{conditions.id}"
        found.append(
            synthetic.record(made, provider, measurement=taken, metric=made.metric, group=group_id, conditions=conditions, **fields)
        )
    if without is not None:
        made, group_id = found[0].case, found[0].group
        taken = _taken(made, NO_NORM, without, noise, seed, processes)
        fields = {"role": Role.CONTROL, "measurement": taken, "metric": made.metric, "group": group_id, "conditions": conditions}
        found.append(synthetic.record(made, NO_NORM, **fields, accuracy=None, memory=None, first_call_s=None))
    return found


def together(cores: int = 2) -> list[Record]:
    """Return a group that two processes train together, the second of them the slowest."""
    records = group("train", conditions=Conditions(device="cpu", threads=1, processes=2, parallel=Parallel.DDP))
    ranks = Ranks(each=(synthetic.constant(8e-3), synthetic.constant(10e-3)), alone=synthetic.constant(9e-3), cores=cores)
    return [msgspec.structs.replace(one, measurement=synthetic.constant(10e-3), ranks=ranks, metric=tokens_metric(256)) for one in records]


def _taken(case: ThroughputCase, name: str, time_s: float, noise: float, seed: int, processes: int) -> Measurement:
    return measurement(time_s, seed=seed + crc32(case.company.encode()), name=name, noise=noise, processes=processes, turns=12)


def whole_run() -> list[Record]:
    """Return two networks that are trained at one batch and serve at three, like what `normbench run --tier throughput` makes."""
    found = []
    for network in ("gpt2", "llama"):
        found += group("train", network=network, times={arm: 20 * time_s for arm, time_s in TIMES.items()}, without=0.15)
        for mode, scale in (("prefill", 4.0), ("decode", 1.0)):
            for batch in (1, 4, 16):
                # Twice the batch takes less than twice as long.
                slower = scale * batch**0.6
                times = {arm: slower * time_s for arm, time_s in TIMES.items()}
                found += group(mode, network=network, size=(batch, 64), times=times, without=slower * 7e-3)
    return found
