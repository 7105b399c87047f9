"""The convolutional network: a norm over channels at each position, on rows that lie together in memory."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from normbench.models.convolutional import ChannelNorm, ConvPool

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_channel_norm_takes_each_position_alone():
    norm = ChannelNorm(6)
    nn.init.normal_(norm.norm.weight)
    nn.init.normal_(norm.norm.bias)
    x = torch.randn(2, 6, 3, 4)
    y = norm(x)
    for image, row, column in ((0, 0, 0), (1, 2, 3)):
        torch.testing.assert_close(y[image, :, row, column], F.layer_norm(x[image, :, row, column], (6,), norm.norm.weight, norm.norm.bias))


def test_every_convolution_is_followed_by_a_norm_of_contiguous_rows():
    torch.manual_seed(0)
    model, contiguous = ConvPool(8), []
    norms = [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
    assert len(norms) == sum(isinstance(module, nn.Conv2d) for module in model.modules()) == 9
    for norm in norms:
        norm.register_forward_pre_hook(lambda _, inputs: contiguous.append(inputs[0].is_contiguous()))
    assert model(torch.randn(2, 3, 32, 32)).shape == (2, 10)
    assert contiguous == [True] * 9


def test_norms_have_the_same_parameters_for_images_of_any_size():
    model = ConvPool(8, classes=5, norm=nn.RMSNorm)
    assert {tuple(module.weight.shape) for module in model.modules() if isinstance(module, nn.RMSNorm)} == {(8,), (16,)}
    assert model(torch.randn(1, 3, 12, 12)).shape == model(torch.randn(1, 3, 40, 24)).shape == (1, 5)


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_an_image_has_the_same_logits_in_any_company(mode):
    torch.manual_seed(0)
    model, images = ConvPool(8).double(), torch.randn(3, 3, 32, 32, dtype=torch.float64)
    getattr(model, mode)()
    torch.testing.assert_close(model(images)[:1], model(images[:1]))
