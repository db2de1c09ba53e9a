"""What tests of several folders share."""

import contextlib
import resource

import pytest


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
