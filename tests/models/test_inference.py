"""A model is looked at as in inference and is afterwards as it was."""

import torch
from torch import nn

from normbench.models.inference import inference


def test_each_module_has_its_own_mode_back():
    model = nn.Sequential(nn.Dropout(), nn.BatchNorm1d(4)).train()
    model[1].eval()
    with inference(model):
        assert not torch.is_grad_enabled()
        assert not any(module.training for module in model.modules())
    assert torch.is_grad_enabled()
    assert [module.training for module in model.modules()] == [True, True, False]
