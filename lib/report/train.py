"""`make train`: train what comes with the project, a part at a time; stopped at any moment, started again it goes on.

python -m lib.report.train full [PART ...]
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from lib.report.run import run_notebooks
from lib.workbook.artifacts import ROOT, ArtifactError, Workbook
from lib.workbook.machine import accelerator, cores, processor
from lib.workbook.parameters.base import ProfileError, check_profile_name, did_you_mean, select
from lib.workbook.parameters.dsl_retrieval import DSLRetrieval
from lib.workbook.profiles import read_profile, write_notebook_parameters
from lib.workbook.trained import FOLDER, Adapter, ship

NEEDED = ("flows.parquet", "tst_pairs.parquet", "embeddings_requests.safetensors", "catalogue.jsonl")


def main(arguments: list[str]) -> int:
    if not arguments:
        print("usage: python -m lib.report.train PROFILE [PART ...]", file=sys.stderr)
        return 2
    from lib.generation.models import ModelError
    from lib.workflows.trained_parts import parts

    profile, chosen, known = arguments[0], arguments[1:], parts(on_gpu=accelerator() != processor())
    if wrong := [name for name in chosen if name not in known]:
        print(f"error: no part is called {wrong[0]}{did_you_mean(wrong[0], known)}", file=sys.stderr)
        return 1
    try:
        check_profile_name(profile)
        book = world_of(profile)
        train(book, {name: known[name] for name in chosen or known})
    except (ProfileError, ArtifactError, ModelError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def world_of(profile: str, root: Path = ROOT) -> Workbook:
    """The artifacts of notebook 01, which is run if they are not there.

    Raises:
        ProfileError: the profile cannot be read.
        ArtifactError: they are missing and could not be made.
    """
    values = read_profile(Path(os.path.relpath(root / "notebooks" / "profiles" / f"{profile}.yaml")))
    book = Workbook(DSLRetrieval.notebook, DSLRetrieval.model_validate(select(values, DSLRetrieval)), root)
    if not all((book.data / name).exists() for name in NEEDED):
        print("notebook 01 makes the world first", flush=True)
        write_notebook_parameters(values, book.data / "parameters")
        run_notebooks(profile, [str((book.data / name).relative_to(root)) for name in NEEDED], root)
    book.require({"01_data_gen": NEEDED})
    return book


def train(book: Workbook, chosen: Mapping, root: Path = ROOT) -> None:
    """Make every part that is not shipped for this world, and ship it; a line before and after each. Raises as
    `lib.workflows.trained_parts.make`."""
    from lib.workflows.catalogue import Catalogue
    from lib.workflows.trained_parts import World, make

    parameters = cast(DSLRetrieval, book.parameters)
    world = World(
        book.read("flows"),
        book.read("tst_pairs"),
        parameters.workflow_encoder,
        parameters.generator,
        parameters.seed,
        book.read_arrays("embeddings_requests")["requests"],
        Catalogue.from_lines(book.read_lines("catalogue")),
        book.made_with("tst_pairs.parquet")["tst_threshold"],
        parameters.definition_form,
    )
    machine = {"threads": cores(), "progress": sys.stderr.isatty()}
    for name, part in chosen.items():
        print(f"{name}: {part.size:,} rows, {part.settings}", flush=True)
        output = book.data / "trained" / name
        made, pairs = make(name, part, world, output, root, **machine)
        if made.shipped:
            print(f"{name}: shipped already, and it fits", flush=True)
        else:
            ship(output, name, pairs, root)
            print(f"{name}: {in_words(made)}; now in {FOLDER / name}", flush=True)


def in_words(made: Adapter) -> str:
    """What a training took and where it ended."""
    last = made.curve["loss"].tail(50).mean()
    return f"{made.rows:,} rows in {made.seconds:.0f} s on {made.device}, mean loss of the last steps {last:.4f}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
