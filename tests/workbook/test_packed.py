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


def test_weights_are_there_once_where_packed_for_good(model):
    half, inputs = model.to(torch.bfloat16), torch.randn(3, 48, dtype=torch.bfloat16)
    with torch.inference_mode():
        expected = half(inputs)
        layers = pack(half, for_good=True)
        assert torch.equal(half(inputs), expected)
    assert [layer.weight.numel() for layer in layers] == [0, 0]


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


def test_a_model_is_as_it_was_after_an_error(model):
    plain = model(torch.ones(2, 48))
    with pytest.raises(RuntimeError, match="cut off"), packed(model):
        raise RuntimeError("cut off")
    assert torch.equal(model(torch.ones(2, 48)), plain)
