"""What torchrun says of a process: which rank it is, of how many, and where all of them meet."""

import os
import stat

import pytest

from normbench.distributed.place import Place
from normbench.errors import NormbenchError, UsageError


def test_without_torchrun_there_is_no_place():
    assert Place.find({}, parent=7) is None


def test_ranks_of_one_parent_share_a_folder_and_those_of_another_do_not():
    def folder(rank, parent):
        return Place.find({"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}, parent).folder

    assert folder(0, 7) == folder(1, 7) != folder(0, 8)


def test_ranks_on_other_nodes_are_refused():
    with pytest.raises(UsageError, match="4 processes, 2 of them here"):
        Place.find({"RANK": "0", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}, parent=7)


def test_folder_is_private_and_empty(tmp_path):
    place = Place(rank=0, size=2, folder=str(tmp_path / "meeting"))
    for _ in range(2):
        place.make_folder()
        assert stat.S_IMODE(os.stat(place.folder).st_mode) == 0o700
        assert os.listdir(place.folder) == []
        (tmp_path / "meeting" / "left behind").touch()


def test_folder_that_others_can_write_to_is_refused(tmp_path):
    folder = tmp_path / "meeting"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(NormbenchError, match="somebody else"):
        Place(rank=0, size=2, folder=str(folder)).make_folder()
