"""The picture of a profile."""

import io

import matplotlib.image
import pytest
from watched_steps import event, profile_of, step, training_step

from normbench.profile.figures import share_picture
from normbench.profile.summary import Basis


@pytest.mark.parametrize("basis", list(Basis))
def test_the_picture_is_a_png_with_bars_of_both_phases(basis):
    picture = matplotlib.image.imread(io.BytesIO(share_picture(profile_of(training_step(kernels=True), basis=basis), "made up")))
    assert picture.shape[:2] == (960, 1200)
    for colour in ((0x00, 0x72, 0xB2), (0xE6, 0x9F, 0x00)):
        assert (abs(picture[..., :3] * 255 - colour).max(axis=-1) < 1).sum() > 1000


def test_a_forward_has_bars_of_one_phase():
    profile = profile_of([step(0, 10), event("module", "", 0, 10), event("module", "norm", 0, 2)])
    picture = matplotlib.image.imread(io.BytesIO(share_picture(profile, "made up")))
    assert not (abs(picture[..., :3] * 255 - (0xE6, 0x9F, 0x00)).max(axis=-1) < 1).any()
