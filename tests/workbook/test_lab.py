"""`make lab` opens on the list of notebooks, shown as a page."""

import json
import re
import shlex

from lib.workbook.artifacts import ROOT
from lib.workbook.profiles import BESIDE, NOTEBOOKS

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def options():
    return shlex.split(re.search(r"^LAB = (.*)$", MAKEFILE, re.MULTILINE).group(1))


def test_it_starts_in_the_projects_folder_on_the_list_of_notebooks():
    assert "jupyterlab $(LAB) $(FLAGS)" in MAKEFILE
    given = dict(option.removeprefix("--").split("=", 1) for option in options())
    start = given["LabApp.default_url"].removeprefix("/lab/tree/")
    text = (ROOT / start).read_text(encoding="utf-8")
    folder = (ROOT / start).parent
    for notebook in [*NOTEBOOKS, *(model.notebook for model in BESIDE)]:
        assert f"]({notebook}.ipynb)" in text
        assert (folder / f"{notebook}.ipynb").exists()


def test_jupyterlab_knows_the_options_and_reads_the_settings():
    from jupyterlab.labapp import LabApp

    application = LabApp()
    application.parse_command_line(options())
    assert application.default_url == "/lab/tree/notebooks/README.md"
    settings = json.loads((ROOT / application.app_settings_dir / "overrides.json").read_text(encoding="utf-8"))
    assert settings["@jupyterlab/docmanager-extension:plugin"]["defaultViewers"]["markdown"] == "Markdown Preview"
