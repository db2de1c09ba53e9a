"""What a profile would ask endpoints, before it asks: held against the prompts that the notebooks really write."""

import json
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import nbformat
import numpy as np
import pandas as pd
import pytest

from lib.assistant import cot, ranking_cost, trained_parts, written_world
from lib.assistant.cot import equal_shares
from lib.assistant.pages import cot_writers
from lib.assistant.prompts import CONTEXT_TYPES, cot_prompt
from lib.assistant.queries import held_out_needs
from lib.assistant.schemas import APPS
from lib.assistant.toolbox import Toolbox
from lib.assistant.world import frames, read_world, simulate
from lib.assistant.written_world import write_world
from lib.generation import load
from lib.generation.models import locate
from lib.generation.remote import estimate_tokens
from lib.report import planned_calls as dry_run
from lib.report.planned_calls import Calls, Sample, expected, planned_calls, report
from lib.retrieval.dense import encode, load_encoder
from lib.retrieval.neighbours import nearest
from lib.workbook.artifacts import ROOT
from lib.workbook.parameters.base import ProfileError, is_remote, select
from lib.workbook.parameters.dsl_ablation import PUBLISHED_ROWS, Condition
from lib.workbook.parameters.worlds import FlowKnobs, WorldKnobs
from lib.workbook.profiles import NOTEBOOKS, read_profile
from lib.workflows.ablation import write_condition
from lib.workflows.catalogue import Catalogue
from lib.workflows.generating import generate
from lib.workflows.pair_checks import read_values
from lib.workflows.pairs import SPLITS
from tests.assistant.test_written_world import Scripted, right, shown_schema, step_of

PRICES = {"remote_price_in": 10.0, "remote_price_out": 20.0}
OF_AN_ENDPOINT = [
    *([*row, "untuned", "free", 1] for row in PUBLISHED_ROWS),
    ["pretrained", 0, "none", "finetuned", "free", 1],
]
REMOTE = {
    "01_data_gen": {"data_writer": "remote:m"},
    "03_cot_augmentation": {"writer": "remote:m", "distilled_writer": "SmolLM2-135M-Instruct"},
    "09_dsl_ablation": {"untuned_generator": "remote:m", "ablation": OF_AN_ENDPOINT},
}


@pytest.fixture(scope="module")
def smoke():
    values = read_profile(ROOT / "notebooks" / "profiles" / "smoke.yaml")
    return values | PRICES


class Asked:
    """A model whose answers are kept; `new` are the prompts that it had not been asked before with these settings."""

    def __init__(self):
        self.new = {}
        self.usage, self.costs = None, [SimpleNamespace(seconds=1.0)]

    def generate(self, prompts, progress=False, **settings):
        for prompt in prompts:
            self.new.setdefault((prompt, json.dumps(settings)), settings["max_new_tokens"])
        return ["Check 'Notes'."] * len(prompts)


def run_cell(notebook, first_words, names):
    """Run the one cell of a notebook that begins so."""
    book = nbformat.read(ROOT / "notebooks" / f"{notebook}.ipynb", as_version=4)
    (source,) = [cell.source for cell in book.cells if cell.cell_type == "code" and cell.source.startswith(first_words)]
    exec(source, names)


def ask_for_chains(values, world, model):
    """Let notebook 03 ask a model for CoTs, by its own cells."""
    tables = frames(world)
    parameters = NOTEBOOKS["03_cot_augmentation"].model_validate(select(values, NOTEBOOKS["03_cot_augmentation"]))
    names = parameters.model_dump() | {
        "parameters": parameters, "book": SimpleNamespace(read=tables.get, data=ROOT, spending=None), "cot": cot,
        "cot_writers": cot_writers, "held_out_needs": held_out_needs, "trained_parts": trained_parts,
        "load_language_model": lambda *given, **named: model, "say": lambda text: None, "show_progress": lambda: False,
        "is_remote": is_remote,
    }  # fmt: skip
    for first_words in ("items, queries, gold", "texts_of", "usage = {}"):
        run_cell("03_cot_augmentation", first_words, names)


def ask_for_time(values, world, model, monkeypatch):
    """Let notebook 05 ask a model for CoTs, by its own cell."""
    parameters = NOTEBOOKS["05_lambdamart_rrf"].model_validate(select(values, NOTEBOOKS["05_lambdamart_rrf"]))
    monkeypatch.setattr(load, "load_language_model", lambda *given, **named: model)
    timed = ranking_cost.sample_to_time(frames(world)["queries"], parameters.seed)
    usage = pd.DataFrame({"split": "evaluation", "writer": ["cot"], "prompts": 1, "tokens_in": 9, "tokens_out": 9})
    names = parameters.model_dump() | {
        "parameters": parameters, "book": SimpleNamespace(read=lambda name: usage, data=ROOT, spending=None),
        "ranking_cost": ranking_cost, "timed": timed, "stages": pd.DataFrame({"cosine": [1.0], "sort": [1.0]}),
        "costs": {}, "scored": SimpleNamespace(methods=[]), "tokens_read": 9, "encode_one": lambda text: None,
    }  # fmt: skip
    run_cell("05_lambdamart_rrf", "usage = book.read", names)


def numbers(found):
    return {row.purpose: (row.calls, row.tokens_in, row.tokens_out) for row in found}


def test_a_profile_without_remote_models_asks_nobody(smoke):
    assert planned_calls(smoke) == {}
    assert report({}, smoke) == ""


def test_expected_is_the_mean_length_times_the_calls():
    assert expected(["x" * 3, "x" * 9], 10, 7) == (10, 20, 70)
    assert expected([], 0, 7) == (0, 0, 0)


def test_chains_of_thought_of_a_smoke_world(smoke):
    """The estimate is within a twentieth of the prompts of the profile's own world, its calls are exact."""
    values = smoke | REMOTE["03_cot_augmentation"]
    found = planned_calls(values)
    world = frames(simulate(ROOT / "data", WorldKnobs.model_validate(select(values, WorldKnobs))))
    every = world["queries"].merge(world["gold"].drop(columns="split"), on="query")
    evaluation = every[every["split"] == "evaluation"]
    sample = equal_shares(evaluation, evaluation["kind"], values["cot_queries"], values["seed"])
    prompts = [cot_prompt(text, types) for types in CONTEXT_TYPES.values() for text in sample["text"]]
    calls, tokens_in, tokens_out = numbers(found["03_cot_augmentation"])["chains of thought"]
    assert calls == len(prompts) == 24
    assert tokens_in == pytest.approx(sum(map(estimate_tokens, prompts)), rel=0.05)
    assert tokens_out == calls * values["cot_max_tokens"]
    assert numbers(found["05_lambdamart_rrf"])["the time of one"][0] == values["cost_queries"]
    everything = planned_calls(values | {"cot_queries": 60})
    assert numbers(everything["05_lambdamart_rrf"])["the time of one"] == (0, 0, 0)


@pytest.mark.parametrize(("cot_queries", "cost_queries"), [(4, 2), (300, 2), (300, 300)])
def test_calls_for_chains_are_those_that_the_notebooks_make(smoke, tmp_path, monkeypatch, cot_queries, cost_queries):
    toolbox = Toolbox.from_yaml(ROOT / "data" / "toolbox.yaml")
    write_world(Scripted(), tmp_path / "mine", toolbox, 6, 12, 6, seed=1)
    values = smoke | REMOTE["03_cot_augmentation"] | {"world_folder": str(tmp_path / "mine")}
    values |= {"cot_queries": cot_queries, "cost_queries": cost_queries}
    found, world, model = planned_calls(values), read_world(tmp_path / "mine"), Asked()
    ask_for_chains(values, world, model)
    (chains,) = found["03_cot_augmentation"]
    assert (chains.calls, chains.tokens_out) == (len(model.new), sum(model.new.values()))
    assert chains.calls == 2 * min(cot_queries, 6)
    again = model if cot_queries >= 6 else Asked()  # of fewer queries those that are timed may be others
    before = len(again.new)
    ask_for_time(values, world, again, monkeypatch)
    assert found["05_lambdamart_rrf"][0].calls == len(again.new) - before == (0 if cot_queries >= 6 else cost_queries)


def test_no_more_chains_are_timed_than_queries(smoke, monkeypatch):
    values = smoke | REMOTE["03_cot_augmentation"] | {"cost_queries": 50}
    monkeypatch.setattr(ranking_cost, "TIMED_QUERIES", 5)
    model, world = Asked(), simulate(ROOT / "data", WorldKnobs.model_validate(select(values, WorldKnobs)))
    ask_for_time(values, world, model, monkeypatch)
    assert planned_calls(values)["05_lambdamart_rrf"][0].calls == len(model.new) == 5


def test_a_world_of_ones_own_without_experts_has_the_endpoint_write_for_training_too(smoke, tmp_path):
    toolbox = Toolbox.from_yaml(ROOT / "data" / "toolbox.yaml")
    model = Scripted(lambda prompt, before: "no" if step_of(prompt) == "thoughts" else right(prompt))
    write_world(model, tmp_path / "mine", toolbox, 6, 12, 6, seed=1)
    values = smoke | REMOTE["03_cot_augmentation"] | {"world_folder": str(tmp_path / "mine"), "cot_queries": 4}
    found = numbers(planned_calls(values)["03_cot_augmentation"])
    asked = Asked()
    ask_for_chains(values, read_world(tmp_path / "mine"), asked)
    assert 0 < found["the same for training"][0] < 12  # of other personas than a writer could have learned from
    assert sum(calls for calls, *_ in found.values()) == len(asked.new)
    assert sum(tokens_out for *_, tokens_out in found.values()) == sum(asked.new.values())


def test_the_world_that_a_model_writes(smoke, tmp_path):
    """Calls as they are made, tokens within a fifth: the personas of a scripted model are not the simulator's."""
    values = smoke | REMOTE["01_data_gen"]
    found = numbers(planned_calls(values)["01_data_gen"])
    assert "toolbox" not in found
    assert numbers(planned_calls(values | {"written_toolbox": True})["01_data_gen"])["toolbox"][0] == len(APPS)
    model = Scripted()
    toolbox = Toolbox.from_yaml(ROOT / "data" / "toolbox.yaml")
    sizes = [values[name] for name in ("n_personas", "n_training_queries", "n_evaluation_queries")]
    write_world(model, tmp_path / "world", toolbox, *sizes, seed=values["seed"])
    for prompts, settings in model.calls:
        calls, tokens_in, tokens_out = found[step_of(prompts[0])]
        assert len(prompts) <= calls <= 1.1 * len(prompts)
        assert calls * settings["max_new_tokens"] <= 1.3 * tokens_out
        if step_of(prompts[0]) in ("personas", "items", "tools", "thoughts"):
            assert tokens_in / calls == pytest.approx(np.mean([*map(estimate_tokens, prompts)]), rel=0.2)


def test_calls_for_a_world_are_those_that_writing_it_makes(smoke, tmp_path, monkeypatch):
    """Where every answer is of use, every tool is called, and both draw the same numbers of items."""
    capacities = written_world.draw_capacities(6, np.random.default_rng(3))
    for module in (written_world, dry_run):
        monkeypatch.setattr(module, "draw_capacities", lambda n, rng: capacities)
    values = smoke | REMOTE["01_data_gen"] | {"n_personas": 6, "n_training_queries": 12, "n_evaluation_queries": 6}

    def answer(prompt, before):
        if step_of(prompt) != "tools":
            return right(prompt)
        return json.dumps({"api": shown_schema(prompt)["properties"]["api"]["enum"][0]})

    model = Scripted(answer)
    write_world(model, tmp_path / "world", None, 6, 12, 6, seed=values["seed"])
    asked = {step_of(prompts[0]): (len(prompts), settings["max_new_tokens"]) for prompts, settings in model.calls}
    found = numbers(planned_calls(values | {"written_toolbox": True})["01_data_gen"])
    assert {step: (calls, tokens_out // calls) for step, (calls, _, tokens_out) in found.items()} == asked


@pytest.mark.slow
def test_flows_of_a_smoke_profile(smoke):
    """A call for each flow of each untuned row; tokens are no fewer and not many more than those of the profile's own
    prompts, whose few-shots are the encoder's out of the profile's own pairs."""
    big = [("pretrained", 20, what) for what in ("none", "fd")]
    rows = [[*row, "untuned", "free", 12 if row in big else 2] for row in PUBLISHED_ROWS]
    rows += [row for row in smoke["ablation"] if row[3] == "finetuned"]
    values = smoke | REMOTE["09_dsl_ablation"] | {"ablation": rows, "n_training_pairs": 2000, "n_test_same_pairs": 0}
    values |= {"new_shots": [0], "prompt_window": 8192}  # room for whole prompts: where none is cut, sizes can differ
    found = numbers(planned_calls(values)["09_dsl_ablation"])["flows"]
    untuned = [row for row in rows if row[3] == "untuned"]
    grid = 3 * values["unseen_flows"]  # notebook 09's conditions on APIs held out of training, none under a grammar
    assert found[0] == sum(row[5] for row in untuned) + grid
    assert found[2] == found[0] * values["dsl_max_tokens"]
    twice = numbers(planned_calls(values | {"n_test_same_pairs": 40})["09_dsl_ablation"])["flows"]
    assert twice[0] == 2 * (found[0] - grid) + grid

    catalogue = Catalogue.load(ROOT / "data" / "catalogue")
    knobs = FlowKnobs.model_validate(select(values, FlowKnobs))
    pairs = generate(catalogue, read_values(ROOT / "data" / "values.yaml"), knobs)
    training, asked = (pairs[pairs["split"] == split].reset_index(drop=True) for split in ("training", "test"))
    encoder = load_encoder(locate(values["encoder"]))
    vectors = [encode(encoder, part["request"].tolist()) for part in (training, asked)]
    near = nearest(*vectors, 20)[0].tolist()
    real = 0
    for row in untuned:
        defined = [training["apis"].iloc[shots[: row[1]]].explode().dropna().unique().tolist() for shots in near]
        arguments = near[: row[5]], training, catalogue, values["prompt_window"], estimate_tokens, defined[: row[5]]
        real += write_condition(Condition.model_validate(row), asked.head(row[5]), *arguments, form="described")[
            "tokens"
        ].sum()
    assert real < found[1] < 1.3 * real


def test_the_report_adds_up_and_says_who_may_stop():
    values = {"profile": "p", **PRICES, "spending_limit": 0.5}
    found = {
        "03_cot_augmentation": [
            Calls("03_cot_augmentation", "m", "chains", 1000, 20_000, 30_000),
            Calls("03_cot_augmentation", "m", "answered already", -400, -8_000, -12_000),
        ],
        "09_dsl_ablation": [Calls("09_dsl_ablation", "m", "flows", 10, 1_000, 1_000)],
    }
    lines = [re.split(r"  +", line) for line in report(found, values).splitlines()]
    assert ["03_cot_augmentation", "m", "chains", "1,000", "20,000", "30,000", "0.8"] in lines
    assert ["03_cot_augmentation", "m", "answered already", "-400", "-8,000", "-12,000", "-0.32"] in lines
    assert ["together", "610", "13,000", "19,000", "0.51"] in lines
    assert report(found, values).endswith("may stop there: 03_cot_augmentation.")  # kept answers count, too
    assert report(found, values | {"spending_limit": 0.8}).endswith(
        "spending_limit is 0.8 for each notebook; without such requests none may reach it."
    )
    assert report(found, {"profile": "p"}).endswith("set remote_price_in and remote_price_out for a cost.")
    assert report(found, {"profile": "p", **PRICES}).endswith("The profile has no spending_limit.")


@pytest.mark.slow
def test_a_dry_run_of_paper_needs_no_key_and_agrees_with_the_readme():
    """As on a fresh clone: no address, no key, and connecting fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    environment |= {"HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "lib.report.planned_calls", "paper"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {line.split()[0] for line in done.stdout.splitlines() if line[:1].isdigit()} == {
        "01_data_gen", "03_cot_augmentation", "05_lambdamart_rrf", "09_dsl_ablation",
    }  # fmt: skip
    flows = re.search(r"09_dsl_ablation +gpt-4 +flows +([\d,]+)", done.stdout)[1]
    readme = (ROOT / "notebooks" / "README.md").read_text()
    assert f"{flows} flows in notebook 09" in readme


def test_a_broken_profile_is_one_clear_line(tmp_path):
    with pytest.raises(ProfileError):
        read_profile(tmp_path / "nothing.yaml")
    command = [sys.executable, "-m", "lib.report.planned_calls", "nothing"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("error: notebooks/profiles/nothing.yaml: no such profile")
    assert "\n" not in done.stderr.strip()


def test_the_sample_is_of_the_profiles_own_kind(smoke):
    sample = Sample(smoke)
    assert sample.queries == (112, 48)
    assert [sample.n_pairs(split) for split in SPLITS] == [300, 40, 20, 40]
    assert len(sample.pairs("training")) == 2000
    assert all(len(set(near)) == 100 for near in sample.near)
