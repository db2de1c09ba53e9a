"""`make train`: train what comes with the project, a part at a time; stopped at any moment, started again it goes on.

python -m lib.report.train full [PART ...]
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from lib.report.run import check_inputs, run_notebooks, write_notebook_parameters
from lib.workbook.artifacts import ROOT, ArtifactError, Workbook
from lib.workbook.inputs import did_you_mean
from lib.workbook.machine import cores
from lib.workbook.parameters import ProfileError, check_profile_name, notebook_parameters, read_profile
from lib.workbook.parts import FOLDER, Recipe


def make_parts(arguments: list[str]) -> int:
    """Make every part that comes with the project, or those named after the profile; returns the exit code."""
    if not arguments:
        print("usage: python -m lib.report.train PROFILE [PART ...]", file=sys.stderr)
        return 2
    from lib.assistant.parts import assistant_recipes
    from lib.generation.models import ModelError
    from lib.workflows.parts import flow_recipes

    # In the order of making: a later one may learn from an earlier one.
    known = flow_recipes() | assistant_recipes()
    profile, chosen = arguments[0], arguments[1:]
    if wrong := [name for name in chosen if name not in known]:
        print(f"error: no part is called {wrong[0]}{did_you_mean(wrong[0], known)}", file=sys.stderr)
        print(f"there are: {', '.join(known)}", file=sys.stderr)
        return 1
    try:
        check_profile_name(profile)
        renewed: set[str] = set()  # notebooks that take a part which was trained now
        for name in [name for name in known if name in chosen or not chosen]:
            recipe = known[name]
            book = world_of(profile, recipe.notebook, recipe.needs, bool(renewed & recipe.needs.keys()))
            if make_part(name, recipe, book):
                renewed.add(recipe.notebook)
    except (ProfileError, ArtifactError, ModelError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def make_part(name: str, recipe: Recipe, book: Workbook, root: Path = ROOT) -> bool:
    """Make a part that is not shipped for this world, and ship it; a line before and after. Returns whether it was
    trained."""
    print(f"{name}: {recipe.about}", flush=True)
    took = recipe.make(book=book, root=root, threads=cores(), progress=sys.stderr.isatty())
    print(f"{name}: " + (f"{took}; now in {FOLDER}" if took else "shipped already, and it fits"), flush=True)
    return bool(took)


def world_of(
    profile: str, notebook: str, needed: Mapping[str, Sequence[str]], anew: bool = False, root: Path = ROOT
) -> Workbook:
    """The artifacts that a notebook reads; what is missing is made first, with `anew` what is out of date, too.

    Args:
        needed: files, by the notebook that writes them.

    Raises:
        ProfileError: the profile cannot be read, or names what is not there.
        ArtifactError: they could not be made.
    """
    path = Path(os.path.relpath(root / "notebooks" / "profiles" / f"{profile}.yaml"))
    values = read_profile(path)
    check_inputs(path, values, root)
    book = Workbook(notebook, notebook_parameters(notebook, values), root)
    wanted = {
        writer: [book.data / name for name in names if anew or not (book.data / name).exists()]
        for writer, names in needed.items()
    }
    if first := [writer for writer, paths in wanted.items() if paths]:
        print(f"what is learned from is made first, by notebooks up to {first[-1]}", flush=True)
        write_notebook_parameters(values, book.data / "parameters")
        files = [str(path.relative_to(root)) for paths in wanted.values() for path in paths]
        if run_notebooks(profile, files, root) and anew:
            raise ArtifactError(f"a notebook failed: run `make report PROFILE={profile}`")
    book.require(needed)
    return book


if __name__ == "__main__":
    sys.exit(make_parts(sys.argv[1:]))
