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
    """The entries of the `pip:` block of an environment file, one a line, comments kept."""
    lines, inside, indent = [], False, 0
    for line in text.splitlines():
        bare = line.strip()
        depth = len(line) - len(line.lstrip())
        if inside and bare and not bare.startswith("#") and depth <= indent:
            break
        if inside and bare.startswith("- "):
            lines.append(bare[2:])
        if bare == "- pip:":
            inside, indent = True, depth
    if not lines:
        raise SystemExit("error: environment.yml has no `- pip:` block")
    return "\n".join(lines) + "\n"


def digest(text: str) -> str:
    """What the environment depends on: the list, the package's build file, the Python, and where the checkout lies."""
    parts = [text, (ROOT / "pyproject.toml").read_text(encoding="utf-8"), sys.version, str(ROOT)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def make_way() -> None:
    """Take a `.venv` away that is a link: what is installed must not go into another checkout's environment."""
    if VENV.is_symlink():
        print(".venv was a link to " + os.readlink(VENV) + " and becomes a folder of this checkout", flush=True)
        VENV.unlink()
    elif VENV.exists() and not VENV.is_dir():
        raise SystemExit("error: " + str(VENV) + " is no folder: move it away and run this again.")


def main() -> None:
    text = (ROOT / "environment.yml").read_text(encoding="utf-8")
    with open(ROOT / ".venv.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two makes at once: the second waits and finds it done
        if STAMP.exists() and STAMP.read_bytes() == digest(text).encode():
            return
        make_way()
        print("setting up .venv from environment.yml (a few minutes the first time)", flush=True)
        STAMP.unlink(missing_ok=True)
        python = VENV / "bin" / "python"
        usable = (
            python.exists() and subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode == 0
        )
        if not usable:
            venv.create(VENV, clear=VENV.exists(), with_pip=True)
        listed = VENV / "requirements.txt"
        listed.write_text(requirements(text), encoding="utf-8")
        done = subprocess.run([python, "-m", "pip", "install", "--quiet", "--requirement", listed], cwd=ROOT)
        if done.returncode:
            raise SystemExit("error: pip could not install the packages of environment.yml; its messages stand above.")
        STAMP.write_text(digest(text))


if __name__ == "__main__":
    main()
