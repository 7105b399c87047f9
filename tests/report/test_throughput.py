"""What a report says of training and serving: tokens per second first, by whom and by how much, and a reason for every dash."""

from __future__ import annotations

import io
import re

import msgspec
import pytest
import synthetic
import throughput_runs
from rich.console import Console

from normbench.cases.conditions import Conditions
from normbench.cases.throughput_case import Mode
from normbench.quantities.units import DASH
from normbench.records.measurement import Memory, Sustained
from normbench.records.record import Status
from normbench.report import write_report
from normbench.report.companies import by_company
from normbench.report.console import summary_table
from normbench.report.markdown import render_markdown
from normbench.report.throughput import throughput_sections
from normbench.report.throughput_answers import norm_gains, throughput_answers
from normbench.results.derived import derive_results

EVEN = dict.fromkeys(throughput_runs.TIMES, 10e-3)


def companies(records):
    return by_company(derive_results(records))


def section(records):
    (found,) = throughput_sections(synthetic.info(), companies(records))
    return found


def render(records):
    return render_markdown(synthetic.run(records), derive_results(records), [])


def cells(table, *, norm, provider):
    (row,) = [row for row in table.rows if row[1:3] == [norm, provider]]
    return dict(zip(table.header, row, strict=True))


def test_every_arm_has_its_rate_its_ratios_and_what_norms_of_no_cost_would_gain():
    found = section(throughput_runs.group("decode"))
    assert found.title == "gpt2-tiny, decode, float32"
    row = cells(found.rates, norm="rms_norm", provider="compile")
    # Two sequences, a token each, in 8 ms.
    assert float(re.match(r"\*\*(\S+) ± \S+ %\*\*$", row["tokens/s"])[1]) == pytest.approx(250, rel=0.1)
    assert row["over aten"].startswith("1.19\u00d7")
    assert row["over LayerNorm"].startswith("1.13\u00d7") or row["over LayerNorm"].startswith("1.12\u00d7")
    assert row["no norms over it"].startswith("1.14\u00d7")
    aten = cells(found.rates, norm="layer_norm", provider="aten")
    assert (aten["over aten"], aten["over LayerNorm"]) == ("baseline", "baseline")
    assert not aten["tokens/s"].startswith("**"), "compile is ahead of it"
    assert found.rates.rows[-1][1:3] == ["no norms", DASH]


def test_what_cannot_be_told_apart_is_marked():
    row = cells(section(throughput_runs.group(times=EVEN, noise=0.02)).rates, norm="rms_norm", provider="compile")
    assert row["over aten"].endswith("≈")
    assert row["over LayerNorm"].endswith("≈")
    assert row["tokens/s"].startswith("**")


def test_tables_are_rectangular_and_no_cell_is_empty():
    for found in throughput_sections(synthetic.info(), companies(throughput_runs.whole_run())):
        for table in (found.rates, found.latency, found.costs, found.sustained):
            assert all(len(row) == len(table.header) and all(row) for row in table.rows)


@pytest.mark.parametrize(("mode", "words"), [("train", "training step"), ("prefill", "first token"), ("decode", "Inter-token latency")])
def test_latencies_are_called_what_a_user_waits_for(mode, words):
    found = section(throughput_runs.group(mode))
    assert words in found.latency_title
    row = cells(found.latency, norm="layer_norm", provider="aten")
    assert [row[name].split()[1] for name in ("p50", "p90", "p99")] == ["ms"] * 3
    assert row["calls"] == "120"


def test_a_percentile_that_the_samples_do_not_hold_is_a_dash_with_a_reason():
    found = section(throughput_runs.group(processes=2))
    assert cells(found.latency, norm="layer_norm", provider="aten")["p99"] == DASH
    assert "a dash in place of a percentile: p99 needs 100 single calls" in found.notes


def test_memory_energy_and_first_call_stand_beside():
    found = section(throughput_runs.group("train"))
    row = cells(found.costs, norm="rms_norm", provider="compile")
    assert (row["peak above weights"], row["kept for backward"], row["first call"]) == ("512 MiB", "256 MiB", "2.50 s")
    rate = float(cells(found.rates, norm="rms_norm", provider="compile")["tokens/s"].strip("*").split()[0])
    assert float(row["tokens/s per GiB of peak"]) == pytest.approx(2 * rate, rel=0.01)
    # 100 steps of 128 tokens for 20 J.
    alone = cells(found.sustained, norm="rms_norm", provider="compile")
    assert (alone["tokens/s"], alone["J/token"], alone["tokens/J"]) == ("12800", "0.00156", "640")
    assert any(throughput_runs.COUNTER in note for note in found.notes)


def test_without_a_counter_there_is_a_reason_and_no_column_of_dashes():
    reasons = {"energy_j": "no counter here", "power_w": "no counter here", "temperature_c": "no sensor"}
    alone = throughput_runs.sustained(
        energy_j=None, energy_source=None, reasons=reasons, series={"clock_mhz": (2000.0, 2100.0, None, 1900.0)}
    )
    found = section(throughput_runs.group(sustained=alone))
    assert found.sustained.header == ["size", "norm", "provider", "run for", "tokens/s", "clock, MHz"]
    assert cells(found.sustained, norm="layer_norm", provider="aten")["clock, MHz"] == "2000 (1900\u20132100)"
    assert {"no energy or power: no counter here", "no temperature: no sensor"} <= set(found.notes)


def test_an_arm_that_failed_by_itself_keeps_its_rate_and_says_why():
    records = throughput_runs.group()
    records[0] = msgspec.structs.replace(
        records[0], sustained=Sustained(duration_s=0.0, calls=0, reasons={"calls": "it ran out of memory"})
    )
    found = section(records)
    assert "±" in cells(found.rates, norm="layer_norm", provider="aten")["tokens/s"]
    assert cells(found.sustained, norm="layer_norm", provider="aten")["run for"] == "failed"
    assert "not run by itself: `layer_norm:aten` 2x64: it ran out of memory" in found.notes


def test_a_run_that_was_not_sustained_has_no_such_table_and_says_so():
    found = section(throughput_runs.group(sustained=None, memory=None, first_call_s=None))
    assert (found.sustained, found.costs) == (None, None)
    assert any("--sustain 0" in note for note in found.notes)


def test_memory_that_was_not_measured_says_why():
    found = section(throughput_runs.group(memory=Memory(reason="no profiler")))
    assert cells(found.costs, norm="layer_norm", provider="aten")["peak above weights"] == DASH
    assert any("memory not measured" in note and "no profiler" in note for note in found.notes)


def test_a_throttled_row_is_marked_and_never_emptied():
    records = throughput_runs.group()
    hot = {"status": Status.THROTTLED, "reason": "over 90 degrees", "sustained": throughput_runs.sustained(throttled="over 90 degrees")}
    records[1] = msgspec.structs.replace(records[1], **hot)
    found = section(records)
    row = cells(found.rates, norm="layer_norm", provider="compile")
    assert row["tokens/s"].endswith(", throttled")
    assert "\u00d7" in row["over aten"]
    assert cells(found.sustained, norm="layer_norm", provider="compile")["run for"] == "1.00 s, throttled"
    assert "throttled: `layer_norm:compile` 2x64: over 90 degrees" in found.notes


@pytest.mark.parametrize("status", [one for one in Status if not one.is_measured])
def test_an_arm_without_a_rate_shows_its_status(status):
    records = throughput_runs.group()
    fields = {"status": status, "reason": "because", "measurement": None, "sustained": None, "memory": None}
    records[0] = msgspec.structs.replace(records[0], **fields)
    row = cells(section(records).rates, norm="layer_norm", provider="aten")
    assert row["tokens/s"] == status.value
    others = cells(section(records).rates, norm="rms_norm", provider="aten")
    assert others["over LayerNorm"] == DASH, "there is nothing to put it over"
    assert f"`{records[0].key}`: {status.value}, because" in render(records)


def test_arms_of_another_group_give_no_ratio():
    records = throughput_runs.group()
    records[0] = msgspec.structs.replace(records[0], group="another")
    row = cells(section(records).rates, norm="rms_norm", provider="aten")
    assert row["over LayerNorm"] == DASH
    assert cells(section(records).rates, norm="layer_norm", provider="compile")["over aten"] == "not side by side"


def test_sections_follow_mode_and_network_however_the_groups_ended():
    records = list(reversed(throughput_runs.whole_run()))
    found = [one.title for one in throughput_sections(synthetic.info(), companies(records))]
    assert found == [f"{network}-tiny, {mode.value}, float32" for mode in Mode for network in ("gpt2", "llama")]
    assert [one.size for one in companies(records) if one.setting.mode is Mode.DECODE and one.network == "gpt2"] == [
        (1, 64),
        (4, 64),
        (16, 64),
    ]


def test_options_and_conditions_are_settings_of_their_own():
    narrow = throughput_runs.group("train", case={"accumulation": 4, "autocast": "bfloat16", "checkpointing": True})
    single = throughput_runs.group("train", conditions=Conditions(device="cpu", threads=1))
    found = throughput_sections(synthetic.info(), companies([*throughput_runs.group("train"), *narrow, *single]))
    assert [one.title.partition(", float32")[2] for one in found] == ["", " (accumulate-4, autocast-bfloat16, checkpointing)", ""]
    assert [one.circumstances.split(", ")[1] for one in found] == ["2 threads", "2 threads", "1 thread"]
    assert "--accumulation 4 --autocast bfloat16 --checkpointing" in found[1].command


def test_the_answer_says_who_is_fastest_and_by_how_much():
    told = throughput_answers(companies(throughput_runs.group("train")))
    assert len(told) == 2, "one for each norm"
    assert re.fullmatch(
        r"\*\*train, float32\*\*, rms_norm: `compile` trains fastest, tokens/s over the next, `aten`: "
        r"1\.19\u00d7 \(1\.\d+\u20131\.\d+\) at gpt2-tiny 2x64",
        told[1],
    )


def test_the_answer_says_so_where_no_difference_can_be_told():
    told = throughput_answers(companies(throughput_runs.group(times=EVEN, noise=0.02)))
    assert told[0] == "**decode, float32**, layer_norm: no difference told between `aten` and `compile` (gpt2-tiny 2x64)"


def test_winners_at_several_places_are_counted():
    records = [*throughput_runs.group(), *throughput_runs.group(network="llama", times=EVEN, noise=0.02)]
    told = throughput_answers(companies(records))[0]
    assert "`compile` writes tokens fastest at 1 of 2, tokens/s over the next, `aten`: 1.11\u00d7" in told
    assert told.endswith("no difference told between `aten` and `compile` at 1 of 2")


def test_a_single_measurement_is_never_called_a_win():
    records = throughput_runs.group()
    taken = [synthetic.measurement(1e-3 * (place + 1), processes=1, repetitions=1, name=str(place)) for place in range(len(records))]
    single = [msgspec.structs.replace(one, measurement=sample) for one, sample in zip(records, taken, strict=True)]
    told = [*throughput_answers(companies(single)), *norm_gains(companies(single))]
    assert told
    assert all("a single measurement, so no interval and no verdict" in sentence for sentence in told)
    assert not any("fastest" in sentence or "more tokens/s" in sentence for sentence in told)


def test_one_provider_alone_is_nothing_to_compare():
    alone = {arm: time_s for arm, time_s in throughput_runs.TIMES.items() if arm[1] == "aten"}
    told = throughput_answers(companies(throughput_runs.group(times=alone)))
    assert told[0].endswith("nothing to compare: only `aten` was measured side by side")
    failed = [
        msgspec.structs.replace(one, status=Status.ERROR, reason="boom", measurement=None) for one in throughput_runs.group(without=None)
    ]
    assert throughput_answers(companies(failed))[0].endswith("nothing was measured")


def test_what_rmsnorm_gains_is_more_tokens_per_second_and_never_less_time():
    told = norm_gains(companies(throughput_runs.group("train")))
    assert re.match(
        r"\*\*train, float32\*\*, layer_norm → rms_norm, `aten`: more tokens/s, 1\.05\u00d7 \(\S+\) at gpt2-tiny 2x64; "
        r"no norms at all would give 1\.43\u00d7 \(\S+\) LayerNorm's at most, at gpt2-tiny 2x64",
        told[0],
    )
    slower = norm_gains(companies(throughput_runs.group(times=throughput_runs.TIMES | {("rms_norm", "aten"): 12e-3})))
    assert "fewer tokens/s, 0.833\u00d7" in slower[0]
    assert not any(re.search(r"\btime\b|\bsaves\b", sentence) for sentence in (*told, *slower))


def test_sentences_name_the_conditions_where_a_run_has_several():
    records = [*throughput_runs.group(), *throughput_runs.group(conditions=Conditions(device="cpu", threads=1))]
    assert [re.search(r"cpu/\dt", sentence)[0] for sentence in throughput_answers(companies(records))] == ["cpu/2t"] * 2 + ["cpu/1t"] * 2


def test_the_whole_report_answers_first_and_has_its_pictures(tmp_path):
    path = write_report(synthetic.run(throughput_runs.whole_run()), tmp_path)
    text = path.read_text()
    order = [
        "## Answer",
        "fastest",
        "## Figures",
        "## Training and serving",
        "### gpt2-tiny, train",
        "## First call",
        "## How to read this",
    ]
    assert [text.index(words) for words in order] == sorted(text.index(words) for words in order)
    assert "Nothing was measured" not in text
    assert "Loading of data is left out" in text
    pictures = re.findall(r"\]\((.*?\.png)\)", text)
    assert len(pictures) == 5, "rates of training, rates of serving, and a sustained run for each mode"
    assert {file.name for file in tmp_path.iterdir()} == {*pictures, "report.md"}
    assert not re.search(r"(?i)\b(nan|inf|none)\b", text.partition("## How to read")[0])
    for block in re.findall(r"(?:^\|.*\|\n)+", text, flags=re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1, block


def test_a_note_that_holds_everywhere_is_told_once():
    text = render(throughput_runs.whole_run())
    assert text.count(f"the counter {throughput_runs.COUNTER}") == 1


def test_other_tiers_say_nothing_of_tokens():
    text = render(list(synthetic.full_run().records))
    assert "Training and serving" not in text
    assert "okens per second" not in text


def test_tiers_stand_in_one_report():
    text = render([*throughput_runs.group(), *synthetic.full_run().records])
    assert "## Training and serving" in text
    assert "fastest is `compile` at 4 of 4" in text


def test_the_terminal_shows_rates_and_the_answer():
    sink = io.StringIO()
    Console(width=200, file=sink).print(summary_table(synthetic.run(throughput_runs.group("prefill"))))
    shown = sink.getvalue()
    assert "tokens/s" in shown
    assert "compile reads prompts fastest" in shown
    assert "no norms" in shown
    assert "**" not in shown
    assert " ms" not in shown.partition("reads prompts")[0], "rates, not times"


def test_several_processes_stand_beside_one():
    found = section(throughput_runs.together())
    assert found.circumstances == "throughput tier; cpu, 2 processes (ddp) of 1 thread, warm cache, reused pages"
    assert [row[1] for row in found.scaling.rows] == [
        "layer_norm:aten",
        "layer_norm:compile",
        "rms_norm:aten",
        "rms_norm:compile",
        "no norms",
    ]
    row = dict(zip(found.scaling.header, found.scaling.rows[0], strict=True))
    assert (row["tokens/s"], row["of one process"]) == ("25600 ± 0 %", "14222 ± 0 %")
    assert (row["efficiency"][:5], row["slowest rank"], row["spread over ranks"]) == ("0.900", "1 in 100 %", "20 %")
    assert "--nproc 2 --parallel ddp" in found.command
    assert section(throughput_runs.group("train")).scaling is None


def test_ranks_that_shared_cores_say_so():
    assert any("Ranks shared cores" in note for note in section(throughput_runs.together(cores=1)).notes)
    assert "Several processes together" in render(throughput_runs.together())


def test_the_terminal_shows_what_several_processes_make_of_one_and_that_they_shared_cores():
    sink = io.StringIO()
    Console(width=200, file=sink).print(summary_table(synthetic.run(throughput_runs.together(cores=1))))
    shown = sink.getvalue()
    assert "together, beside one process alone" in shown
    assert "0.900" in shown
    assert "Ranks shared cores (2 processes of 1 thread on 1 core)" in shown
