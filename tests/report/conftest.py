"""A page as headless Chromium shows it, after its scripts have run."""

import shutil
import subprocess

import pytest
from bs4 import BeautifulSoup


@pytest.fixture(scope="session")
def shown():
    """What becomes of a page at an address, in light or dark; skipped where there is no Chromium."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("no Chromium here")

    def show(address, dark=False):
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,900", "--virtual-time-budget=20000"]
        flags += [f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--dump-dom"]
        done = subprocess.run([program, *flags, address], capture_output=True, text=True, timeout=600)
        return BeautifulSoup(done.stdout, "html.parser")

    return show
