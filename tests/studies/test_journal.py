"""Each observation is on disk as it comes; a folder is gone on with only where it holds the same study under the same settings."""

from __future__ import annotations

import pytest

from normbench.errors import NormbenchError, UsageError
from normbench.studies.journal import JOURNALS, Header
from normbench.studies.observation import Observation, Trial

HEADER = Header(study="drift", common={"steps": 10}, torch="2.13.0", machine="a machine")


def observation(seed):
    return Observation.of("drift", Trial(setting={"norm": "none"}, seed=seed), values={"end": 1.0})


@pytest.fixture
def folder(tmp_path):
    with JOURNALS.open(tmp_path / "drift", HEADER, resume=False) as journal:
        journal.append(observation(0))
        journal.append(observation(1))
    return tmp_path / "drift"


def test_what_was_appended_is_read_again(folder):
    assert JOURNALS.read(folder) == (HEADER, (observation(0), observation(1)))


def test_observation_is_on_disk_before_the_next_one(tmp_path):
    with JOURNALS.open(tmp_path, HEADER, resume=False) as journal:
        journal.append(observation(0))
        assert JOURNALS.read(tmp_path)[1] == (observation(0),)


def test_folder_with_observations_is_gone_on_with_only_when_asked(folder):
    with pytest.raises(UsageError, match="holds a study of 2 observations: go on with it by --resume"):
        JOURNALS.open(folder, HEADER, resume=False)
    with JOURNALS.open(folder, HEADER, resume=True) as journal:
        assert journal.entries == [observation(0), observation(1)]


@pytest.mark.parametrize(
    ("header", "why"),
    [
        (Header(study="drift", common={"steps": 20}, torch="2.13.0", machine="m"), "made with steps 10, not 20"),
        (Header(study="drift", common={}, torch="2.13.0", machine="m"), "made with steps 10, not None"),
        (Header(study="collapse", common={"steps": 10}, torch="2.13.0", machine="m"), "holds the study 'drift', not 'collapse'"),
        (Header(study="drift", common={"steps": 10}, torch="2.14.0", machine="m"), "made with torch 2.13.0"),
    ],
)
def test_other_settings_are_refused(folder, header, why):
    with pytest.raises(UsageError, match=why):
        JOURNALS.open(folder, header, resume=True)


def test_line_cut_short_by_a_crash_is_dropped_and_the_next_one_is_whole(folder):
    lines = folder / "observations.jsonl"
    lines.write_bytes(lines.read_bytes()[:-5])
    assert JOURNALS.read(folder)[1] == (observation(0),)
    with JOURNALS.open(folder, HEADER, resume=True) as journal:
        journal.append(observation(2))
    assert JOURNALS.read(folder)[1] == (observation(0), observation(2))


def test_folder_without_a_study_says_how_one_is_made(tmp_path):
    with pytest.raises(UsageError, match="holds no study"):
        JOURNALS.read(tmp_path)


def test_damaged_line_names_the_folder(folder):
    (folder / "observations.jsonl").write_bytes(b"{}\n")
    with pytest.raises(NormbenchError, match=str(folder)):
        JOURNALS.read(folder)
