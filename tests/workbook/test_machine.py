import os
import platform
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
import torch

from lib.workbook.machine import has_bfloat16, packed_layers, return_freed_memory


@pytest.mark.parametrize(
    ("able", "allowed"), [({"amx_bf16": True}, True), ({"avx512_bf16": True}, False), ({"avx512_bf16": False}, True)]
)
def test_bfloat16_is_used_where_the_processor_computes_in_it(monkeypatch, able, allowed):
    """And where oneDNN may: ONEDNN_MAX_CPU_ISA=AVX2 forbids it, and then a product takes twenty times as long."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: able)
    monkeypatch.setattr("torch.ops.mkldnn._is_mkldnn_bf16_supported", lambda: allowed)
    assert has_bfloat16() is (any(able.values()) and allowed)


@pytest.mark.parametrize(("own", "spins"), [({}, "2000"), ({"OMP_WAIT_POLICY": "active"}, "30000000000")])
def test_threads_that_wait_soon_sleep(own, spins):
    """OpenMP says at loading how often a thread looks for work before it sleeps; what a person set stands."""
    library = next(Path(find_spec("torch").origin).parent.glob("lib/libgomp*"), None)
    if library is None:
        pytest.skip("PyTorch comes without GNU's OpenMP")
    inherited = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    environment = inherited | own | {"OMP_DISPLAY_ENV": "verbose", "PYTHONPATH": os.pathsep.join(sys.path)}
    load = f"import ctypes, lib.workbook.machine; ctypes.CDLL({str(library)!r})"
    loaded = subprocess.run([sys.executable, "-c", load], env=environment, capture_output=True, text=True)
    assert f"GOMP_SPINCOUNT = '{spins}'" in loaded.stderr


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator than glibc's")
def test_freed_memory_goes_back_to_the_system():
    blocks = [bytes(2_000) for _ in range(100_000)]
    del blocks[:-1]  # the last one is near the heap's end: what lies before it stays with the process
    before = psutil.Process().memory_info().rss
    return_freed_memory()
    assert before - psutil.Process().memory_info().rss > 100e6


@pytest.mark.parametrize("shape", [(1, 48), (3, 50, 48)])
def test_packed_layers_give_the_same_products(shape):
    torch.manual_seed(0)
    inner = torch.nn.Sequential(torch.nn.Linear(96, 33, bias=False))
    model = torch.nn.Sequential(torch.nn.Linear(48, 96), torch.nn.GELU(), inner).eval().bfloat16()
    inputs = torch.randn(shape, dtype=torch.bfloat16)
    with torch.inference_mode():
        expected = model(inputs)
        if len(packed_layers(model)) != 2:
            pytest.skip("needs a processor that has bfloat16")
        torch.testing.assert_close(model(inputs), expected, rtol=0, atol=0)
