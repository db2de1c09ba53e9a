"""Packed layers give the same products to the last bit, and leave a model as it was."""

import pytest
import torch

from lib.workbook.packed import pack, packed

pytestmark = pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="needs a processor that multiplies in bfloat16"
)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(48, 96), torch.nn.GELU(), torch.nn.Sequential(torch.nn.Linear(96, 33, bias=False))
    ).eval()


@pytest.mark.parametrize("shape", [(1, 48), (7, 48), (3, 50, 48)])
def test_the_products_are_the_same(model, shape):
    inputs = torch.randn(shape, dtype=torch.bfloat16)
    half = model.to(torch.bfloat16)
    with torch.inference_mode():
        expected = half(inputs)
        assert len(pack(half)) == 2
        assert torch.equal(half(inputs), expected)


def test_they_are_the_same_under_autocast_and_the_model_stays(model):
    inputs, before = torch.randn(5, 48), torch.randn(5, 48)
    plain = model(before)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        expected = model(inputs)
        with packed(model):
            assert torch.equal(model(inputs), expected)
            with torch.autocast("cpu", enabled=False):
                assert model(inputs).dtype == torch.bfloat16  # packed layers answer, not the plain ones
    assert torch.equal(model(before), plain)
