"""`make train`: train what comes with the project, a part at a time; stopped at any moment, started again it goes on.

python -m lib.report.train full [PART ...]
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from lib.report.run import check_inputs, run_notebooks
from lib.workbook.artifacts import ROOT, ArtifactError, Workbook
from lib.workbook.inputs import did_you_mean
from lib.workbook.machine import accelerator, cores, processor
from lib.workbook.parameters.base import Parameters, ProfileError, check_profile_name, select
from lib.workbook.parameters.dsl_retrieval import DSLRetrieval
from lib.workbook.parameters.lambdamart_rrf import LambdaMARTRRF
from lib.workbook.parameters.tool_retrieval import ToolRetrieval
from lib.workbook.parts import FOLDER, Adapter, ship
from lib.workbook.profiles import read_profile, write_notebook_parameters

NEEDED = {
    "01_data_gen": ("flows.parquet", "tst_pairs.parquet", "embeddings_requests.safetensors", "catalogue.jsonl"),
}  # for the workflow paper's parts


def main(arguments: list[str]) -> int:
    if not arguments:
        print("usage: python -m lib.report.train PROFILE [PART ...]", file=sys.stderr)
        return 2
    from lib.assistant import shipped_ranker, shipped_tool_rankers
    from lib.assistant import trained_parts as of_assistant
    from lib.generation.models import ModelError
    from lib.workflows import trained_parts as of_workflows

    profile, chosen = arguments[0], arguments[1:]
    flows = of_workflows.parts(on_gpu=accelerator() != processor())
    assistant: dict[str, Any] = of_assistant.parts()
    known = [*flows, *assistant, shipped_ranker.NAME, shipped_tool_rankers.NAME]
    if wrong := [name for name in chosen if name not in known]:
        print(f"error: no part is called {wrong[0]}{did_you_mean(wrong[0], known)}", file=sys.stderr)
        print(f"there are: {', '.join(known)}", file=sys.stderr)
        return 1
    try:
        check_profile_name(profile)
        if about_flows := {name: part for name, part in flows.items() if name in chosen or not chosen}:
            train(world_of(profile, DSLRetrieval, NEEDED), about_flows)
        renewed = False  # the writer was: its chains of thought stand in prompts of the planner
        for name, part in assistant.items():
            if name in chosen or not chosen:
                book = world_of(profile, part.parameters, part.needs, renewed)
                renewed |= train_for_assistant(book, name, part)
        if shipped_ranker.NAME in chosen or not chosen:
            book = world_of(profile, LambdaMARTRRF, shipped_ranker.NEEDED)
            trained = shipped_ranker.train_and_ship(book, cores())
            say_shipped(shipped_ranker.NAME, shipped_ranker.FILE, trained)
        if shipped_tool_rankers.NAME in chosen or not chosen:
            book = world_of(profile, ToolRetrieval, shipped_tool_rankers.NEEDED)
            say_shipped(shipped_tool_rankers.NAME, shipped_tool_rankers.FILE, shipped_tool_rankers.ship(book))
    except (ProfileError, ArtifactError, ModelError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def world_of(
    profile: str, model: type[Parameters], needed: Mapping[str, Sequence[str]], anew: bool = False, root: Path = ROOT
) -> Workbook:
    """The artifacts that a notebook reads; what is missing is made first.

    Args:
        model: parameters of the notebook that reads them.
        needed: files, by the notebook that writes them.
        anew: make what is out of date, too.
        root: the project's folder.

    Raises:
        ProfileError: the profile cannot be read, or names what is not there.
        ArtifactError: they could not be made.
    """
    path = Path(os.path.relpath(root / "notebooks" / "profiles" / f"{profile}.yaml"))
    values = read_profile(path)
    check_inputs(path, values, root)
    book = Workbook(model.notebook, model.model_validate(select(values, model)), root)
    wanted = {
        notebook: [book.data / name for name in names if anew or not (book.data / name).exists()]
        for notebook, names in needed.items()
    }
    if first := [notebook for notebook, paths in wanted.items() if paths]:
        print(f"what is learned from is made first, by notebooks up to {first[-1]}", flush=True)
        write_notebook_parameters(values, book.data / "parameters")
        files = [str(path.relative_to(root)) for paths in wanted.values() for path in paths]
        if run_notebooks(profile, files, root) and anew:
            raise ArtifactError(f"a notebook failed: run `make report PROFILE={profile}`")
    book.require(needed)
    return book


def train(book: Workbook, chosen: Mapping, root: Path = ROOT) -> None:
    """Make every part of the workflow paper that is not shipped for this world, and ship it; a line before and after
    each. Raises as `lib.workflows.trained_parts.make`."""
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
    for name, part in chosen.items():
        print(f"{name}: {part.size:,} rows, {part.settings}", flush=True)
        output = book.data / "trained" / name
        shipped_or_kept(name, output, *make(name, part, world, output, root, **machine()), root=root)


def train_for_assistant(book: Workbook, name: str, part: Any, root: Path = ROOT) -> bool:
    """The same for one part of the assistant paper; returns whether it was trained. Raises as
    `lib.assistant.trained_parts.make`.

    Args:
        book: of the notebook that takes the part (`lib.assistant.trained_parts.Part.parameters`).
    """
    from lib.assistant.trained_parts import make

    print(f"{name}: of {part.size:,} training queries, {part.settings}", flush=True)
    output = book.data / "trained" / name
    return shipped_or_kept(name, output, *make(name, part, book, output, root, **machine()), root=root)


def say_shipped(name: str, file: Path, trained: bool) -> None:
    """A line about a part that is one file."""
    print(f"{name}: " + (f"now in {file}" if trained else "shipped already, and it fits"), flush=True)


def machine() -> dict[str, Any]:
    return {"threads": cores(), "progress": sys.stderr.isatty()}


def shipped_or_kept(
    name: str, output: Path, made: Adapter, source: str, about: Mapping | None = None, *, root: Path
) -> bool:
    """Ship what was trained at `output`, unless the part is shipped already; a line about it. Returns whether it was
    trained.

    Args:
        source: hash of what it learned from.
        about: what else its record is to say.
    """
    if made.shipped:
        print(f"{name}: shipped already, and it fits", flush=True)
    else:
        ship(output, name, source, root, about)
        print(f"{name}: {in_words(made)}; now in {FOLDER / name}", flush=True)
    return not made.shipped


def in_words(made: Adapter) -> str:
    """What a training took and where it ended."""
    last = made.curve["loss"].tail(50).mean()
    return f"{made.rows:,} rows in {made.seconds:.0f} s on {made.device}, mean loss of the last steps {last:.4f}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
