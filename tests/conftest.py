"""What tests of several folders share."""

import os

import matplotlib as mpl
import pytest

import lib.workbook.machine  # noqa: F401  two workers share two cores: a thread that waits must not keep one busy

FIRST = "tests/notebooks/test_report.py"  # makes what the others read
LATER = ("tests/notebooks/test_report_again.py", "tests/notebooks/test_explore_retrieval.py")


def pytest_configure(config):
    """Each worker, and what it starts, keeps to cores of its own: threads that wait for each other on cores which they
    share with another worker's take up to three times as long."""
    worker = getattr(config, "workerinput", None)
    if worker and hasattr(os, "sched_setaffinity"):
        number, workers = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
        shared = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, shared[number % workers :: workers] or shared)


def pytest_collection_modifyitems(items):
    """Long files first, so that no worker is left with one at the end, or waits for what another makes."""
    for item in items:
        if item.get_closest_marker("gpu"):
            import torch

            if not torch.cuda.is_available():
                item.add_marker(pytest.mark.skip(reason="needs a GPU"))
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    places = {FIRST: 0} | dict.fromkeys(LATER, 2)
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], 1 if item.path in slow else 3))


@pytest.fixture(autouse=True)
def style_of_its_own():
    """A test that draws in the workbook's style leaves Matplotlib's to the next one."""
    with mpl.rc_context():
        yield
