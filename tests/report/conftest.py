"""A page in headless Chromium, one browser for all tests of a worker."""

import contextlib
import json
import shutil
import subprocess
import time
import urllib.request

import pytest


class Tab:
    """A page in headless Chromium, spoken to by the DevTools protocol."""

    def __init__(self, port):
        import websocket

        pages = json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list"))
        address = next(page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page")
        self.socket = websocket.create_connection(address, timeout=120, suppress_origin=True)
        self.number, self.errors = 0, []
        for domain in ("Runtime", "Page", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method, **parameters):
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded") or (
                message.get("method") == "Runtime.consoleAPICalled"
                and message["params"]["type"] in ("error", "warning")
            ):
                self.errors.append(message["params"])
            if message.get("id") == self.number:
                assert "error" not in message, message
                return message["result"]

    def value(self, expression):
        """The value of an expression, awaited where it is a promise."""
        done = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def wait(self, expression):
        until = time.time() + 120  # the browser shares the cores with what else is tested
        while not self.value(expression):
            assert time.time() < until, f"never: {expression}"
            time.sleep(0.05)

    def load(self, address, width=1400, mobile=False):
        """Show a page anew in a window of so many pixels, without what was wrong with the last one."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": mobile}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        page, _, place = address.partition("#")
        load = f"load={self.number}"  # a page anew, though only the place differs
        fresh = f"{page}{'&' if '?' in page else '?'}{load}"
        self.errors = []
        self.ask("Page.navigate", url=f"{fresh}#{place}" if place else fresh)
        self.wait(f"location.search.endsWith('{load}') && document.readyState === 'complete'")

    def open(self, address, **window):
        """Show a page of cases."""
        self.load(address, **window)
        self.wait("!!document.querySelector('#filters') && !document.querySelector('#filters').hidden")

    def listed(self):
        return self.value("document.querySelectorAll('#list [role=option]').length")


@pytest.fixture(scope="session")
def tab(tmp_path_factory):
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("no Chromium here")
    profile = tmp_path_factory.mktemp("chromium")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-port=0"]
    process = subprocess.Popen(
        [program, *flags, f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        until, chosen = time.time() + 60, profile / "DevToolsActivePort"
        while not (chosen.exists() and chosen.read_text().strip()):
            assert time.time() < until, "Chromium did not start"
            time.sleep(0.1)
        yield Tab(chosen.read_text().split()[0])
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
