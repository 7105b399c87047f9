"""What a claim's scope needs is looked up where it can be."""

from __future__ import annotations

import pytest

from normbench.claims import needs
from normbench.claims.needs import unmet
from normbench.errors import NormbenchError


def test_what_is_here_is_no_reason():
    assert unmet(["framework:torch", "package:msgspec"]) == ()


def test_what_is_not_here_is_named():
    assert unmet(["framework:no_such_framework", "dataset:ImageNet"]) == (
        "needs no_such_framework, which is not installed",
        "needs ImageNet: this package trains on no data set",
    )


@pytest.mark.parametrize("available", [True, False])
def test_device_is_asked_for(monkeypatch, available):
    monkeypatch.setattr(needs.torch.cuda, "is_available", lambda: available)
    assert bool(unmet(["device:cuda"])) is not available


def test_unknown_kind_of_need_is_an_error():
    with pytest.raises(NormbenchError, match="unknown kind"):
        unmet(["weather:sunny"])
