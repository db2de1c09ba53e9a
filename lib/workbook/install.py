"""Set up `.venv` from environment.yml, where its content changed since the last time. Standard library only.

    python3 lib/workbook/install.py

The pip block of environment.yml is installed as it stands; conda users install the very same list. Nothing is
installed through a link: where `.venv` is one, it makes way for a folder, and what it leads to stays as it is.
"""

import sys

WANTED = (3, 11)
if sys.version_info[:2] != WANTED:
    sys.exit(  # no f-string: an old Python must reach this line
        "error: this workbook needs Python {}.{}, and {} is Python {}.{}; "
        "name another one with `make PYTHON=/path/to/python3.11 ...`.".format(
            *WANTED, sys.executable, *sys.version_info[:2]
        )
    )

import fcntl  # noqa: E402
import hashlib  # noqa: E402
import os  # noqa: E402
import subprocess  # noqa: E402
import venv  # noqa: E402
from pathlib import Path  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
STAMP = VENV / "installed.sha256"


def requirements(text: str) -> str:
    """The entries of the `pip:` block, which is the last of an environment file, one a line, comments kept."""
    entries = [line.strip() for line in text.partition("- pip:")[2].splitlines()]
    return "".join(entry[2:] + "\n" for entry in entries if entry.startswith("- "))


def set_up() -> None:
    """Install what environment.yml lists, unless that list, pyproject.toml, Python and place are those of before."""
    listed = (ROOT / "environment.yml").read_text(encoding="utf-8")
    parts = [listed, (ROOT / "pyproject.toml").read_text(encoding="utf-8"), sys.version, str(ROOT)]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    with open(ROOT / ".venv.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two makes at once: the second waits and finds it done
        if STAMP.exists() and STAMP.read_bytes() == digest.encode():
            return
        if VENV.is_symlink():
            print(".venv was a link to " + os.readlink(VENV) + " and becomes a folder of this checkout", flush=True)
            VENV.unlink()
        print("setting up .venv from environment.yml (a few minutes the first time)", flush=True)
        STAMP.unlink(missing_ok=True)
        python = VENV / "bin" / "python"
        if not python.exists() or subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode:
            venv.create(VENV, clear=VENV.exists(), with_pip=True)
        wanted = VENV / "requirements.txt"
        wanted.write_text(requirements(listed), encoding="utf-8")
        if subprocess.run([python, "-m", "pip", "install", "--quiet", "--requirement", wanted], cwd=ROOT).returncode:
            raise SystemExit("error: pip could not install the packages of environment.yml; its messages stand above.")
        STAMP.write_text(digest)


if __name__ == "__main__":
    set_up()
