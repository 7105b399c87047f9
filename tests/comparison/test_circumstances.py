"""What must not be compared is refused, and the field is named."""

import msgspec
import pytest
import synthetic

from normbench.cases.conditions import Cache, Pages
from normbench.cases.definition import Definition
from normbench.cases.model_case import ModelCase
from normbench.comparison.circumstances import record_discrepancies, refuse_difference, run_discrepancies
from normbench.errors import UsageError
from normbench.records.record import Departure, Status
from normbench.storage.stored_run import Machine

from . import sides

PLAN = {"plan": {"budget_s": 8.0, "min_sample_s": 1e-3, "seed": 0}}


def run(**changes):
    return sides.run([], **changes)


def texts(before, after):
    return [one.text for one in run_discrepancies(before.info, after.info)]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({}, {"machine": {"cpu_model": "Other"}}, "cpu_model Example CPU 9000 against Other"),
        ({}, {"machine": {"cores": 1}}, "cores 2 against 1"),
        ({}, {"machine": {"kernel": "Linux 7"}}, "kernel Linux 6.8 against Linux 7"),
        ({}, {"machine": {"cpu_isa": ["sse4_2", "avx", "avx2"]}}, "cpu_isa with avx512f against without that"),
        (
            {"machine": {"torch_cpu_capability": "AVX512"}},
            {"machine": {"torch_cpu_capability": "AVX2"}},
            "torch_cpu_capability AVX512 against AVX2",
        ),
        ({"machine": {"compiler": "g++ 13"}}, {"machine": {"compiler": "g++ 14"}}, "compiler g++ 13 against g++ 14"),
        ({}, {"machine": {"device": {"type": "cuda"}}}, "device type cpu against type cuda"),
        ({}, {"versions": {"torch": "2.14.0"}}, "torch 2.13.0 against 2.14.0"),
        ({}, {"versions": {"triton": "4.0"}}, "triton 3.9.0 against 4.0"),
        ({"settings": PLAN}, {"settings": {"plan": PLAN["plan"] | {"min_sample_s": 1e-2}}}, "min_sample_s 0.001 against 0.01"),
        ({}, {"schema": 2}, "schema 1 against 2"),
    ],
)
def test_runs_of_other_circumstances_are_refused_and_the_field_is_named(before, after, expected):
    one, other = run(**before), run(**after)
    assert texts(one, other) == [expected]
    field = expected.split()[0]
    with pytest.raises(UsageError, match=rf"are not compared: .*{field} .*--across {field}$"):
        refuse_difference(one, other, ())


# B51: a machine is known by what stays, and not by what its clock did.
@pytest.mark.parametrize(
    "moods",
    [
        {"machine": {"cpu_mhz": 2402.4, "device": {"type": "cpu", "free_bytes": 17}, "affinity": [1, 2]}},
        {"settings": {"plan": PLAN["plan"] | {"budget_s": 4.0, "seed": 3}}, "seed": 3},
        {"versions": {"keras": "3.15"}},
        {"git_commit": "f" * 40, "created_at": "2027-01-01T00:00:00+00:00", "command": ["other"]},
    ],
)
def test_what_changes_from_run_to_run_is_no_other_machine(moods):
    assert texts(run(settings=PLAN), run(**({"settings": PLAN} | moods))) == []


def test_every_difference_is_named_at_once_with_the_words_that_allow_it():
    # B04: another machine is never compared in silence.
    other = run(machine={"cpu_model": "Other", "cores": 64}, versions={"torch": "2.14.0"})
    with pytest.raises(UsageError) as caught:
        refuse_difference(run(), other, ())
    assert str(caught.value).endswith(
        "cpu_model Example CPU 9000 against Other; cores 2 against 64; torch 2.13.0 against 2.14.0. "
        "If this is the difference to be studied, allow it with --across cpu_model,cores,torch"
    )


def test_what_is_studied_is_allowed_and_the_rest_still_refused():
    other = run(machine={"cores": 64}, versions={"torch": "2.14.0"})
    with pytest.raises(UsageError, match=r"are not compared: cores 2 against 64\. "):
        refuse_difference(run(), other, ("torch",))
    assert [one.field for one in refuse_difference(run(), other, ("torch", "cores"))] == ["cores", "torch"]


def test_machine_stands_for_all_of_its_fields_and_for_no_version():
    other = run(machine={"cores": 64, "kernel": "Linux 7", "device": {"type": "cuda"}})
    assert len(refuse_difference(run(), other, ("machine",))) == 3
    with pytest.raises(UsageError, match="torch"):
        refuse_difference(run(), run(versions={"torch": "2.14.0"}), ("machine",))


def test_a_word_that_is_no_field_is_refused_with_those_that_are():
    with pytest.raises(UsageError, match=r"--across 'torhc' is no field of these runs; fields are .*threads.*torch"):
        refuse_difference(run(), run(), ("torhc",))


def test_run_of_several_machines_is_refused_for_its_cases_are_not_one_machine_s():
    fleet = run(machines={"Other CPU": Machine(machine={"cpu_model": "Other CPU"}, versions={})})
    for pair in ((run(), fleet), (fleet, run())):
        with pytest.raises(UsageError, match="more machines than its own"):
            refuse_difference(*pair, ())


RECORD = synthetic.record(sides.CASES[0])
ANOTHER = Departure(definition=Definition.EPS_OUTSIDE_ROOT, accuracy=())


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"conditions": msgspec.structs.replace(RECORD.conditions, threads=1)}, "threads 2 against 1"),
        ({"conditions": msgspec.structs.replace(RECORD.conditions, cache=Cache.COLD)}, "cache warm against cold"),
        ({"conditions": msgspec.structs.replace(RECORD.conditions, pages=Pages.FRESH)}, "pages reused against fresh"),
        ({"conditions": msgspec.structs.replace(RECORD.conditions, device="cuda")}, "device cpu against cuda"),
        ({"measurement": msgspec.structs.replace(RECORD.measurement, timer="cuda_event")}, "timer perf_counter against cuda_event"),
        ({"settings": {"donated_buffer": False}}, "settings donated_buffer none against donated_buffer False"),
        (
            {"departure": Departure(definition=Definition.EPS_OUTSIDE_ROOT, accuracy=())},
            "definition the norm's own against eps_outside_root",
        ),
        ({"schema": 0}, "schema 1 against 0"),
    ],
)
def test_records_taken_in_another_way_differ_in_a_field(fields, expected):
    assert [one.text for one in record_discrepancies(RECORD, msgspec.structs.replace(RECORD, **fields))] == [expected]


def test_what_an_op_does_not_depend_on_is_no_difference():
    other = msgspec.structs.replace(RECORD, seed=7, group="other", settings={"compile_cache": "hit"}, first_call_s=9.0)
    assert record_discrepancies(RECORD, other) == []


def test_seed_matters_where_it_decides_what_is_done():
    model = msgspec.structs.replace(RECORD, case=ModelCase.make("gpt2", "tiny", "rms_norm", "forward", (2, 16)))
    assert [one.text for one in record_discrepancies(model, msgspec.structs.replace(model, seed=7))] == ["seed 0 against 7"]


def test_what_was_not_measured_has_no_timer_to_differ_in():
    other = msgspec.structs.replace(RECORD, measurement=None, status=Status.WRONG, reason="off by 2", settings={"a": 1})
    assert record_discrepancies(RECORD, other) == []
