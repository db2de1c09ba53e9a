"""Profiles: one YAML file of parameters for all notebooks, and each notebook's parameters as a pydantic model.

A profile is flat: `name: value`. Each notebook takes the names it knows. A name that no notebook knows, a wrong type
or a value out of range is an error that names the file and the key, before any work starts.
"""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

PROFILE_NAME = r"^[a-z0-9][a-z0-9_-]*$"
REMOTE = "remote:"  # begins the name of a language model behind an OpenAI-compatible endpoint
Cutoffs = Annotated[list[Annotated[int, Field(ge=1, le=100)]], Field(min_length=1, max_length=10)]


def is_remote(model: str) -> bool:
    """Whether a language model's name means one behind an endpoint rather than one on this machine."""
    return model.startswith(REMOTE)


def _on_this_machine(model: str) -> str:
    if is_remote(model):
        raise ValueError("a model behind an endpoint cannot be fine-tuned or embed texts here: name a local one")
    return model


def _named(model: str) -> str:
    if is_remote(model) and not model.removeprefix(REMOTE).strip():
        raise ValueError(f"{REMOTE} must be followed by the model's name at the endpoint")
    return model


LocalModelName = Annotated[str, AfterValidator(_on_this_machine)]
LanguageModelName = Annotated[str, AfterValidator(_named)]


class ProfileError(ValueError):
    """A profile or a notebook's parameters that cannot be used."""


class Parameters(BaseModel):
    """Parameters that every notebook has. Types are strict: "7" is no integer and 1 is no boolean."""

    model_config = ConfigDict(extra="forbid", strict=True)

    profile: str = Field(default="quick", pattern=PROFILE_NAME, description="names the folders of data and report")
    seed: int = Field(default=7, ge=0, lt=2**32, description="seed of everything drawn at random")


class RemoteKnobs(Parameters):
    """How an endpoint is asked, for notebooks that may ask one. Prices are those of the model that they ask."""

    remote_concurrency: int = Field(default=8, ge=1, le=256, description="requests under way at most")
    remote_price_in: float = Field(default=0.0, ge=0, le=1e6, description="of a million tokens of prompts")
    remote_price_out: float = Field(default=0.0, ge=0, le=1e6, description="of a million tokens of answers")
    spending_limit: float | None = Field(default=None, ge=0, description="of each notebook; None is no limit")

    @model_validator(mode="after")
    def _prices_for_the_limit(self) -> RemoteKnobs:
        if self.spending_limit is not None and self.remote_price_in + self.remote_price_out <= 0:
            raise ValueError("spending_limit needs remote_price_in or remote_price_out: without prices nothing costs")
        return self

    @property
    def remote(self) -> dict[str, Any]:
        """These settings as `lib.generation.load.load_language_model` takes them."""
        return {
            "concurrency": self.remote_concurrency,
            "price_in": self.remote_price_in,
            "price_out": self.remote_price_out,
            "limit": self.spending_limit,
        }


class WorldKnobs(Parameters):
    """Sizes and strengths of the simulated world of personas."""

    n_personas: int = Field(default=791, ge=4)
    n_training_queries: int = Field(default=4338, ge=1)
    n_evaluation_queries: int = Field(default=936, ge=1)
    split: Literal["phrasing", "item_template", "need"] = "phrasing"
    meaning_share: float = Field(default=1 / 3, ge=0, le=1)
    habit_share: float = Field(default=1 / 3, ge=0, le=1)
    complex_share: float = Field(default=0.10, ge=0, le=1)
    default_share: float = Field(default=0.05, ge=0, le=1)
    habit_strength: float = Field(default=0.8, ge=0, le=1)
    hour_noise: float = Field(default=1.0, gt=0, le=12)
    hard_distractors: float = Field(default=6.0, ge=0)
    opens_per_item: float = Field(default=8.0, ge=1)

    @model_validator(mode="after")
    def _shares(self) -> WorldKnobs:
        if self.meaning_share + self.habit_share > 1 + 1e-9:
            raise ValueError("meaning_share and habit_share together exceed 1")
        if self.complex_share + self.default_share > 1:
            raise ValueError("complex_share and default_share together exceed 1")
        if self.n_training_queries + self.n_evaluation_queries < self.n_personas:
            raise ValueError("there must be at least one query a persona")
        return self


Shares = Annotated[list[Annotated[float, Field(ge=0)]], Field(min_length=5, max_length=5)]


class FlowKnobs(Parameters):
    """Sizes and shares of the simulated workflows; the defaults are the paper's sizes.

    APIs are drawn by weight, but a `tail_share` of the flows has one drawn evenly, so that none goes unused.
    """

    n_training_pairs: int = Field(default=67_000, ge=1)
    n_test_pairs: int = Field(default=1_000, ge=1)
    n_unseen_pairs: int = Field(default=408, ge=0)
    # Of flows with one to five calls.
    length_shares: Shares = [0.04, 0.52, 0.27, 0.12, 0.05]
    condition_share: float = Field(default=1 / 3, ge=0, le=1)
    tail_share: float = Field(default=0.06, ge=0, le=1)
    api_spread: float = Field(default=0.4, ge=0, le=2)

    @model_validator(mode="after")
    def _flow_shares(self) -> FlowKnobs:
        if sum(self.length_shares[1:]) <= 0:
            raise ValueError("length_shares must allow flows of two calls or more")
        if self.condition_share > sum(self.length_shares[1:]) / sum(self.length_shares):
            raise ValueError("condition_share exceeds the share of flows with two calls or more")
        return self


class DataGen(WorldKnobs, FlowKnobs, RemoteKnobs):
    world_folder: str = Field(default="", description="your own personas; empty: simulate some")
    data_writer: LanguageModelName = Field(default="", description="model that writes personas; empty: simulate some")
    written_toolbox: bool = Field(default=False, description="data_writer writes the toolbox, too")
    openapi_folder: str = Field(default="", description="your own APIs; empty: the catalogue in data/")
    pairs_file: str = Field(default="", description="your own requests and flows; empty: simulate some")
    request_writer: LanguageModelName = Field(default="", description="model that writes requests; empty: keep them")
    review_file: str = Field(default="", description="what people decided about test pairs; empty: nothing yet")
    workflow_encoder: LocalModelName = Field(default="all-MiniLM-L6-v2", min_length=1)
    tst_pairs: int = Field(default=100_000, ge=2)
    tst_threshold: float = Field(default=0.7, gt=-1, lt=1)

    @model_validator(mode="after")
    def _pairs_for_the_apis(self) -> DataGen:
        if self.openapi_folder and not self.pairs_file:
            raise ValueError("openapi_folder needs a pairs_file: nobody has written how your own APIs are asked for")
        return self

    @model_validator(mode="after")
    def _one_world(self) -> DataGen:
        if self.written_toolbox and not self.data_writer:
            raise ValueError("written_toolbox needs a data_writer: it writes the toolbox")
        if self.world_folder and self.data_writer:
            raise ValueError("world_folder and data_writer exclude each other: one of them gives the personas")
        return self

    @model_validator(mode="after")
    def _one_endpoint_model(self) -> DataGen:
        remote = {name for name in (self.data_writer, self.request_writer) if is_remote(name)}
        if len(remote) > 1:
            raise ValueError("data_writer and request_writer must be one model: prices and limit are those of one")
        return self


class ContextRetrieval(Parameters):
    """What all notebooks on context retrieval share."""

    encoder: LocalModelName = Field(default="all-MiniLM-L6-v2", min_length=1)
    cutoffs: Cutoffs = [3, 5, 10]
    bootstrap_samples: int = Field(default=2000, ge=100, le=100_000)


class ContextBaselines(ContextRetrieval):
    bm25_b: float = Field(default=0.75, ge=0, le=1)


class CoTWriters(ContextRetrieval, RemoteKnobs):
    """The language models that write chains of thought."""

    writer: LanguageModelName = Field(default="SmolLM2-135M-Instruct", min_length=1)
    distilled_writer: LocalModelName = Field(default="", description="learns from experts; empty: the writer itself")

    @model_validator(mode="after")
    def _one_that_can_be_distilled(self) -> CoTWriters:
        if is_remote(self.writer) and not self.distilled_writer:
            raise ValueError("distilled_writer: a model behind an endpoint cannot be fine-tuned: name a local one")
        return self


class CoTAugmentation(CoTWriters):
    cot_context_types: Literal["apps", "paper"] = "apps"
    cot_queries: int = Field(default=300, ge=1)
    cot_training_queries: int = Field(default=240, ge=1)
    distilled_pairs: int = Field(default=480, ge=1)
    distilled_learning_rate: float = Field(default=3e-3, gt=0, le=0.1)
    distilled_epochs: int = Field(default=1, ge=1, le=20)
    cot_max_tokens: int = Field(default=64, ge=1, le=1024)


class FinetunedSearch(ContextRetrieval):
    finetune_epochs: int = Field(default=1, ge=1, le=20)
    finetune_batch_size: int = Field(default=32, ge=2, le=1024)
    finetune_learning_rate: float = Field(default=2e-4, gt=0, le=0.1)
    hard_negatives: int = Field(default=8, ge=1, le=100)
    learning_curve: list[Annotated[int, Field(ge=1)]] = Field(default=[500], min_length=1, max_length=10)


class LambdaMARTRRF(CoTWriters):
    cot_context_types: Literal["apps", "paper"] = "apps"
    cot_max_tokens: int = Field(default=64, ge=1, le=1024)
    bm25_b: float = Field(default=0.75, ge=0, le=1)
    folds: int = Field(default=5, ge=2, le=20)
    rrf_k: list[Annotated[int, Field(ge=0, le=1000)]] = Field(default=[1, 5, 20, 60], min_length=1, max_length=10)
    control_draws: int = Field(default=5, ge=1, le=100)
    sweep_personas: int = Field(default=60, ge=8)
    cost_queries: int = Field(default=20, ge=2)


class ToolRetrieval(Parameters):
    encoder: LocalModelName = Field(default="all-MiniLM-L6-v2", min_length=1)
    wording_queries: int = Field(default=600, ge=1)
    toolbox_file: str = Field(default="", description="your own functions; empty: the toolbox of notebook 01")
    queries_file: str = Field(default="", description="your own queries with answers; empty: those of notebook 01")
    bootstrap_samples: int = Field(default=2000, ge=100, le=100_000)

    @model_validator(mode="after")
    def _queries_for_the_toolbox(self) -> ToolRetrieval:
        if self.toolbox_file and not self.queries_file:
            raise ValueError("toolbox_file needs a queries_file: no query of notebook 01 calls your own functions")
        return self


class HeldModel(Parameters):
    """How the weights of a language model on this machine are held."""

    quantization: Literal["none", "nf4"] = Field(default="none", description="nf4: in 4 bits (QLoRA)")


class TunedModel(HeldModel):
    """How a language model is fine-tuned."""

    training_processes: int = Field(default=1, ge=1, le=64, description="of accelerate launch, one a GPU")


class PlannerTuning(TunedModel):
    encoder: LocalModelName = Field(default="all-MiniLM-L6-v2", min_length=1)
    planner: LocalModelName = Field(default="SmolLM2-135M-Instruct", min_length=1)
    planner_pairs: int = Field(default=780, ge=1)
    planner_learning_rate: float = Field(default=3e-3, gt=0, le=0.1)
    planner_epochs: int = Field(default=1, ge=1, le=20)
    planner_batch_size: int = Field(default=8, ge=1, le=1024)
    planner_queries: int = Field(default=102, ge=1)
    planner_sweep_queries: int = Field(default=30, ge=1)
    shown_tools: int = Field(default=10, ge=1, le=50)
    shown_items: int = Field(default=3, ge=1, le=20)
    planner_max_tokens: int = Field(default=64, ge=1, le=1024)
    bootstrap_samples: int = Field(default=2000, ge=100, le=100_000)


class DSLRetrieval(TunedModel):
    workflow_encoder: LocalModelName = Field(default="all-MiniLM-L6-v2", min_length=1)
    tst_training_pairs: int = Field(default=3_000, ge=2)
    tst_learning_rate: float = Field(default=1e-4, gt=0, le=0.1)
    tst_epochs: int = Field(default=1, ge=1, le=20)
    tst_batch_size: int = Field(default=32, ge=2, le=1024)
    tst_curve: list[Annotated[int, Field(ge=2)]] = Field(default=[750], min_length=1, max_length=10)
    tst_curve_pool: int = Field(default=2_500, ge=20)
    shots: list[Annotated[int, Field(ge=1, le=100)]] = Field(default=[5, 20], min_length=1, max_length=10)
    generator: LocalModelName = Field(default="SmolLM2-135M-Instruct", min_length=1)
    dsl_training_pairs: int = Field(default=512, ge=1)
    dsl_learning_rate: float = Field(default=3e-3, gt=0, le=0.1)
    dsl_epochs: int = Field(default=1, ge=1, le=20)
    dsl_batch_size: int = Field(default=4, ge=1, le=1024)
    dsl_curve: list[Annotated[int, Field(ge=1)]] = Field(default=[64], min_length=1, max_length=10)
    dsl_flows: int = Field(default=48, ge=1)
    dsl_max_tokens: int = Field(default=256, ge=1, le=4096)
    bootstrap_samples: int = Field(default=2000, ge=100, le=100_000)


class Condition(BaseModel):
    """A row of the ablation's table, given as a list in the order of these fields.

    Attributes:
        selector: whose few-shots: by the pretrained encoder or by TST, or drawn at random; `_learned` searches only the
            pairs that the fine-tuned model learned from.
        shots: few-shots in the prompt.
        definitions: none; FD, SFD or both, after the few-shots; FD before them; `instruction`: how to use definitions,
            without any; `gold`: those of the right flow's APIs, which no method could know.
        generator: the language model as it comes, or fine-tuned on requests and flows.
        decoding: free, under the grammar, under the grammar with the catalogue's names and keys, or with those of the
            APIs that the prompt shows.
        flows: test flows it is tried on, the first ones of the order of notebook 08.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    selector: Literal["pretrained", "tst", "pretrained_learned", "random"]
    shots: int = Field(ge=0, le=100)
    definitions: Literal["none", "instruction", "fd", "fd_first", "sfd", "fd_sfd", "gold"]
    generator: Literal["untuned", "finetuned"]
    decoding: Literal["free", "grammar", "catalogue", "grounded"]
    flows: int = Field(ge=1)

    @model_validator(mode="before")
    @classmethod
    def _from_row(cls, row: Any) -> Any:
        fields = list(cls.model_fields)
        if not isinstance(row, list):
            return row
        if len(row) != len(fields):
            raise ValueError(f"a row must have {len(fields)} entries: {', '.join(fields)}")
        return dict(zip(fields, row, strict=True))

    @model_validator(mode="after")
    def _possible(self) -> Condition:
        if self.decoding == "grounded" and not self.shots and self.definitions in ("none", "instruction"):
            raise ValueError("decoding grounded needs few-shots or definitions: their APIs are what may be called")
        if self.selector in ("pretrained_learned", "random") and self.definitions in ("sfd", "fd_sfd"):
            raise ValueError("SFD shows as many definitions as FD: it needs the few-shots of pretrained or tst")
        if self.generator == "finetuned" and self.definitions != "none":
            raise ValueError("the fine-tuned model reads no definitions")
        return self

    @property
    def name(self) -> str:
        """What the condition is called in artifacts, such as `tst_20_fd_sfd`."""
        parts = [self.selector if self.shots else "no", str(self.shots or "shots")]
        usual = {"none", "untuned", "free"}
        return "_".join(
            [*parts, *(part for part in (self.definitions, self.generator, self.decoding) if part not in usual)]
        )


# The rows of the paper's Tables 1 to 4, baselines included: selector, few-shots, definitions.
PUBLISHED_ROWS = [
    *((selector, shots, what) for shots in (5, 20) for selector in ("pretrained", "tst") for what in ("none", "fd")),
    ("tst", 20, "sfd"),
    ("tst", 20, "fd_sfd"),
]
ABLATION = [
    *([selector, shots, what, "untuned", "free", 30 if shots == 5 else 12] for selector, shots, what in PUBLISHED_ROWS),
    *(["pretrained", shots, "none", "untuned", "free", 30 if shots < 5 else 12] for shots in (0, 1, 3, 10)),
    ["random", 5, "none", "untuned", "free", 30],
    ["pretrained", 5, "instruction", "untuned", "free", 30],
    ["pretrained", 5, "fd_first", "untuned", "free", 30],
    ["pretrained", 5, "fd_first", "untuned", "grounded", 30],
    ["pretrained_learned", 5, "none", "untuned", "free", 30],
    ["pretrained_learned", 5, "none", "untuned", "catalogue", 30],
    *(["pretrained", 5, "none", "untuned", decoding, 30] for decoding in ("grammar", "catalogue", "grounded")),
    ["tst", 5, "none", "finetuned", "free", 30],
    ["pretrained", 0, "none", "finetuned", "catalogue", 30],
]


class DSLAblation(HeldModel, RemoteKnobs):
    generator: LocalModelName = Field(default="SmolLM2-135M-Instruct", min_length=1)
    untuned_generator: LanguageModelName = Field(default="", description="reads few-shots; empty: the generator")
    remote_window: int = Field(default=8192, ge=256, description="tokens that prompt and answer may have")
    dsl_max_tokens: int = Field(default=256, ge=1, le=4096)
    ablation: list[Condition] = Field(default=ABLATION, validate_default=True)
    new_shots: list[Annotated[int, Field(ge=0, le=100)]] = Field(default=[0, 1], min_length=1, max_length=5)
    unseen_flows: int = Field(default=12, ge=1)
    bootstrap_samples: int = Field(default=2000, ge=100, le=100_000)

    @model_validator(mode="after")
    def _rows(self) -> DSLAblation:
        names = [row.name for row in self.ablation]
        twice = next((name for name in names if names.count(name) > 1), "")
        if twice:
            raise ValueError(f"ablation: two rows are {twice}")
        plain = {
            (row.selector, row.shots, row.definitions)
            for row in self.ablation
            if (row.generator, row.decoding) == ("untuned", "free")
        }
        for row in PUBLISHED_ROWS:
            if row not in plain:
                raise ValueError(f"ablation: the paper's row {[*row, 'untuned', 'free']} is missing")
        return self

    @model_validator(mode="after")
    def _no_grammar_for_an_endpoint(self) -> DSLAblation:
        bound = [row.name for row in self.ablation if row.generator == "untuned" and row.decoding != "free"]
        if is_remote(self.untuned_generator) and bound:
            raise ValueError(
                f"ablation: {self.untuned_generator} cannot be held to a grammar, as {', '.join(bound)} must be: "
                "give these rows the decoding free or leave them out"
            )
        if is_remote(self.untuned_generator) and self.dsl_max_tokens >= self.remote_window:
            raise ValueError("remote_window: must be larger than dsl_max_tokens")
        return self


class Generators(RemoteKnobs):
    encoder: LocalModelName = Field(default="all-MiniLM-L6-v2", min_length=1)
    compared_writer: LanguageModelName = Field(default="SmolLM2-135M-Instruct", min_length=1)
    compared_personas: int = Field(default=1, ge=1, le=100)
    compared_items: int = Field(default=1, ge=1, le=20)
    compared_queries: int = Field(default=5, ge=1, le=1000)
    compared_repairs: int = Field(default=1, ge=0, le=5)
    compared_max_tokens: int = Field(default=192, ge=8, le=4096)
    compared_flows: int = Field(default=5, ge=1, le=1000)


NOTEBOOKS: dict[str, type[Parameters]] = {
    "01_data_gen": DataGen,
    "02_context_baselines": ContextBaselines,
    "03_cot_augmentation": CoTAugmentation,
    "04_finetuned_search": FinetunedSearch,
    "05_lambdamart_rrf": LambdaMARTRRF,
    "06_tool_retrieval": ToolRetrieval,
    "07_planner": PlannerTuning,
    "08_dsl_retrieval": DSLRetrieval,
    "09_dsl_ablation": DSLAblation,
    "10_generators": Generators,
}


def known_names() -> set[str]:
    return {name for model in NOTEBOOKS.values() for name in model.model_fields}


def describe(error: ValidationError) -> str:
    """Every problem of a pydantic error as `key: what is wrong, not value`."""
    parts = []
    for problem in error.errors():
        key = ".".join(str(part) for part in problem["loc"])
        message = re.sub(r"^Value error, ", "", problem["msg"])
        parts.append(f"{key}: {message} (given {problem['input']!r})" if key else message)
    return "; ".join(parts)


def read_profile(path: str | Path) -> dict[str, Any]:
    """The parameters of a profile file, checked against every notebook that knows them.

    Raises:
        ProfileError: the file is missing or no mapping, a key stands twice or is unknown to all notebooks, a value has
            a wrong type or is out of range, or `profile` differs from the file's name.
    """
    path = Path(path)
    try:
        values = yaml.load(path.read_text(encoding="utf-8"), Loader=UniqueKeyLoader)
    except FileNotFoundError:
        others = ", ".join(sorted(other.stem for other in path.parent.glob("*.yaml"))) or "none"
        raise ProfileError(f"{path}: no such profile (there are: {others})") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ProfileError(f"{path}: cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise ProfileError(f"{path}: expected `name: value` lines")
    known = known_names()
    for name in values:
        if name not in known:
            raise ProfileError(f"{path}: {name}: no notebook has this parameter{did_you_mean(str(name), known)}")
    if values.get("profile") != path.stem:
        raise ProfileError(f"{path}: profile: must be {path.stem!r}, the file's name (given {values.get('profile')!r})")
    for notebook, model in NOTEBOOKS.items():
        try:
            model.model_validate(select(values, model))
        except ValidationError as error:
            raise ProfileError(f"{path}: {describe(error)} [notebook {notebook}]") from error
    return values


def select(values: dict[str, Any], model: type[Parameters]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name in model.model_fields}


def did_you_mean(name: str, known: set[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


class UniqueKeyLoader(yaml.SafeLoader):
    """YAML in which a key that stands twice is an error instead of the last one winning."""

    def construct_mapping(self, node, deep=False):
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.YAMLError(f"key {key.value!r} stands twice (line {key.start_mark.line + 1})")
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def check_parameters(notebook: str, namespace: dict[str, Any]) -> Parameters:
    """A notebook's parameters out of its `globals()`, validated.

    papermill only warns of names it does not find, so every name set by a cell of plain assignments (the one tagged
    `parameters`, the one papermill injects) must be known to some notebook. Names of other notebooks are let through,
    so that a whole profile can be passed.

    Raises:
        ProfileError: naming the notebook and the parameter.
    """
    model, known = NOTEBOOKS[notebook], known_names()
    cells = namespace.get("In")
    given = set(namespace) if cells is None else {name for cell in cells for name in literal_assignments(cell)}
    for name in sorted(given):
        if name not in known:
            raise ProfileError(
                f"notebook {notebook}: {name}: no notebook has this parameter{did_you_mean(name, known)}"
            )
    try:
        return model.model_validate(select(namespace, model))
    except ValidationError as error:
        raise ProfileError(f"notebook {notebook}: {describe(error)}") from error


def literal_assignments(source: str) -> list[str]:
    """Names that a cell sets, if it does nothing but assign literals; otherwise none."""
    try:
        body = ast.parse(source).body
        for statement in body:
            if not (isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)):
                return []
            ast.literal_eval(statement.value)
    except (SyntaxError, ValueError):
        return []
    return [statement.targets[0].id for statement in body]


def write_notebook_parameters(values: dict[str, Any], folder: Path) -> dict[str, Path]:
    """One file of parameters for each notebook, rewritten only where its content changed, so that a changed
    parameter reruns just the notebooks that know it."""
    paths = {}
    folder.mkdir(parents=True, exist_ok=True)
    for notebook, model in NOTEBOOKS.items():
        paths[notebook] = folder / f"{notebook}.yaml"
        text = yaml.safe_dump(select(values, model), sort_keys=True, allow_unicode=True)
        if not paths[notebook].exists() or paths[notebook].read_text(encoding="utf-8") != text:
            temporary = paths[notebook].with_name(f".{notebook}.{os.getpid()}.tmp")
            temporary.write_text(text, encoding="utf-8")
            os.replace(temporary, paths[notebook])
    return paths
