"""Profiles: one YAML file of parameters for all notebooks.

A profile is flat: `name: value`. Each notebook takes the names it knows. A name that no notebook knows, a wrong type
or a value out of range is an error that names the file and the key, before any work starts. A profile may also set what
only a notebook beside the report knows, such as `queries_file`: it is checked, and the report's notebooks ignore it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from lib.workbook.artifacts import atomic_path
from lib.workbook.inputs import InputError, did_you_mean, read_yaml
from lib.workbook.parameters.base import Parameters, ProfileError, describe, known_names, select
from lib.workbook.parameters.beyond import Beyond
from lib.workbook.parameters.context_baselines import ContextBaselines
from lib.workbook.parameters.cot_augmentation import CoTAugmentation
from lib.workbook.parameters.data_gen import DataGen
from lib.workbook.parameters.dsl_ablation import DSLAblation
from lib.workbook.parameters.dsl_retrieval import DSLRetrieval
from lib.workbook.parameters.explore_assistant import ExploreAssistant
from lib.workbook.parameters.explore_workflows import ExploreWorkflows
from lib.workbook.parameters.finetuned_search import FinetunedSearch
from lib.workbook.parameters.index import Index
from lib.workbook.parameters.lambdamart_rrf import LambdaMARTRRF
from lib.workbook.parameters.own_functions import OwnFunctions
from lib.workbook.parameters.planner import PlannerTuning
from lib.workbook.parameters.tool_retrieval import ToolRetrieval
from lib.workbook.parameters.transfer import Transfer

MODELS: tuple[type[Parameters], ...] = (
    DataGen,
    ContextBaselines,
    CoTAugmentation,
    FinetunedSearch,
    LambdaMARTRRF,
    ToolRetrieval,
    PlannerTuning,
    DSLRetrieval,
    DSLAblation,
    Transfer,
    Beyond,
    Index,
)
NOTEBOOKS: dict[str, type[Parameters]] = {model.notebook: model for model in MODELS}

# Notebooks that stand beside the report: `make report` does not run them, and no page of the report is theirs.
BESIDE: tuple[type[Parameters], ...] = (ExploreAssistant, ExploreWorkflows, OwnFunctions)


def read_profile(path: str | Path) -> dict[str, Any]:
    """The parameters of a profile file, checked against every notebook that knows them.

    Raises:
        ProfileError: the file is missing or no mapping, a key stands twice or is unknown to all notebooks, a value has
            a wrong type or is out of range, or `profile` differs from the file's name.
    """
    path = Path(path)
    if not path.exists():
        others = ", ".join(sorted(other.stem for other in path.parent.glob("*.yaml"))) or "none"
        raise ProfileError(f"{path}: no such profile (there are: {others})")
    try:
        values = read_yaml(path)
    except InputError as error:
        raise ProfileError(str(error)) from error
    if not isinstance(values, dict):
        raise ProfileError(f"{path}: expected `name: value` lines")
    known = known_names()
    for name in values:
        if name not in known:
            raise ProfileError(f"{path}: {name}: no notebook has this parameter{did_you_mean(str(name), known)}")
    if values.get("profile") != path.stem:
        raise ProfileError(f"{path}: profile: must be {path.stem!r}, the file's name (given {values.get('profile')!r})")
    for model in (*MODELS, *BESIDE):
        try:
            model.model_validate(select(values, model))
        except ValidationError as error:
            raise ProfileError(f"{path}: {describe(error)} [notebook {model.notebook}]") from error
    return values


def write_notebook_parameters(values: dict[str, Any], folder: Path) -> dict[str, Path]:
    """One file of parameters for each notebook of the report, rewritten only where its content changed, so that a
    changed parameter reruns just the notebooks that know it. Raises ArtifactError where the folder cannot be written.
    """
    paths = {}
    for notebook, model in NOTEBOOKS.items():
        paths[notebook] = folder / f"{notebook}.yaml"
        text = yaml.safe_dump(select(values, model), sort_keys=True, allow_unicode=True)
        if not paths[notebook].exists() or paths[notebook].read_text(encoding="utf-8") != text:
            with atomic_path(paths[notebook]) as temporary:
                temporary.write_text(text, encoding="utf-8")
    return paths
