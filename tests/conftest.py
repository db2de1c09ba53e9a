"""What tests of several folders share."""

import contextlib
import resource

import pytest

import lib.workbook.machine  # noqa: F401  two workers share two cores: a thread that waits must not keep one busy

FIRST = "tests/notebooks/test_report.py"  # the longest file


def has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def pytest_collection_modifyitems(items):
    """Long files first, so that no worker is left with one at the end."""
    for item in items:
        if item.get_closest_marker("gpu") and not has_gpu():
            item.add_marker(pytest.mark.skip(reason="needs a GPU"))
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (not item.nodeid.startswith(FIRST), item.path not in slow))


@pytest.fixture
def no_file_above():
    """A context in which no file can grow beyond so many bytes: writing fails in the middle, as on a full disk."""

    @contextlib.contextmanager
    def limit(size: int):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limit
