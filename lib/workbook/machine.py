"""The machine: its processor and cores, and how threads wait on it."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import platform
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# Threads that wait for work must sleep: by default they spin, which beside another busy process takes the time of those
# they wait for. GNU's OpenMP looks 2,000 times, a tenth of a millisecond, before they do, for the many little products
# of a decoding step: of 32 rows, on two cores, it takes 54 ms where threads spin, 99 where they sleep at once, 65 so;
# beside a busy process 2,300, 88 and 106. OpenMP reads this when PyTorch or LightGBM loads it, which is later.
if os.environ.setdefault("OMP_WAIT_POLICY", "passive") == "passive":
    os.environ.setdefault("GOMP_SPINCOUNT", "2000")


def processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def cores() -> int:
    """Cores that this process may use: on a cluster's node those of its job, not all that the node has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def return_freed_memory(_: object = None) -> None:
    """Give pages that Python and PyTorch have freed back to the system, in milliseconds; glibc keeps most of them."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


@contextlib.contextmanager
def worker_pool(workers: int, threads: int) -> Iterator[ThreadPoolExecutor]:
    """Workers that compute side by side, with so many threads of PyTorch each; what waits when one fails never runs."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    pool = ThreadPoolExecutor(workers)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(before)


def packed_layers(model) -> list:
    """Let the linear layers of a model in bfloat16 that only answers multiply with weights in the processor's own
    order, in half the time where rows are few, and the same to the last bit. Returns the layers, which keep their own
    weights, too: none where the processor does not multiply so."""
    import torch

    def forward(weight, bias, inputs):
        return torch.ops.mkldnn._linear_pointwise(inputs.to(weight.dtype), weight, bias, "none", [], "")

    layers = [layer for layer in model.modules() if type(layer) is torch.nn.Linear and not layer.weight.is_cuda]
    if not torch.backends.mkldnn.is_available() or not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return []
    for layer in layers:
        weight = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach())
        vars(layer)["forward"] = functools.partial(forward, weight, None if layer.bias is None else layer.bias.detach())
    return layers


def accelerator() -> str:
    """The name of what models compute on: the GPU, or the processor where there is none."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else processor()


def has_bfloat16() -> bool:
    """Whether the GPU or else the processor computes in bfloat16, not only stores it: then float32 is slower."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.is_bf16_supported(including_emulation=False)
    able = torch.cpu.get_capabilities()  # of the processor; oneDNN may be held to fewer
    return bool(able.get("avx512_bf16") or able.get("amx_bf16")) and torch.ops.mkldnn._is_mkldnn_bf16_supported()
