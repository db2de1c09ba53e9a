import random
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from lib.workbook.artifacts import Workbook
from lib.workbook.parameters import Parameters, notebook_parameters
from lib.workflows.catalogue import Catalogue
from lib.workflows.generating import generate
from lib.workflows.pairs import read_values
from lib.workflows.wording import FIRST_PLACEHOLDER, Draft, Wordings

DATA = Path(__file__).parents[2] / "data"


@dataclass
class Api:
    keys: set[str] = field(default_factory=set)
    dynamic: bool = False
    trigger: bool = False


@pytest.fixture
def six_apis():
    """Six APIs with all that validation asks of one."""
    apis = {
        "shared_microsoftforms.CreateFormWebhook": Api({"form_id"}, trigger=True),
        "shared_office365.OnNewEmailV3": Api({"folderPath", "importance"}, trigger=True),
        "shared_office365.SendEmailV2": Api({"emailMessage/To", "emailMessage/Subject", "$select", "line item"}),
        "shared_office365users.MyProfile_V2": Api({"$select"}),
        "shared_teams.PostMessageToConversation": Api({"poster", "location", "body/messageBody"}, dynamic=True),
        "shared_service-now.Create-record": Api({"item"}),
    }
    return Catalogue(apis, {})


@pytest.fixture(scope="session")
def catalogue():
    return Catalogue.load(DATA / "catalogue")


@pytest.fixture(scope="session")
def values():
    return read_values(DATA / "values.yaml")


@pytest.fixture(scope="session")
def pairs(catalogue, values):
    return generate(catalogue, values, {"training": 1200, "test": 400, "unseen": 204, "test_same": 400})


@pytest.fixture(scope="session")
def wordings(catalogue, values):
    return Wordings(catalogue, values, seed=7)


@pytest.fixture
def draft(wordings):
    """Makes an empty draft; random by its seed alone."""

    def make(seed=0, terse=False, conditional=False, split="training", day_layout="{iso}", clock="at {hour24}"):
        return Draft(random.Random(seed), wordings, split, terse, conditional, day_layout, clock)

    return make


@pytest.fixture
def spelled():
    """Puts the values of a draft where a text has their placeholders."""

    def spell(draft, text):
        for number, (value, _) in enumerate(draft.tokens):
            text = text.replace(chr(FIRST_PLACEHOLDER + number), value)
        return text

    return spell


FORM = 'x = await shared_microsoftforms.CreateFormWebhook({"form_id": "Leads"});'
MAIL = 'shared_office365.SendEmailV2({"emailMessage/To": "a@b.c"});'
POST = 'shared_teams.PostMessageToConversation({"poster": "Flow bot"});'
FORM_API, MAIL_API, POST_API = (flow.split("await ")[-1].split("(")[0] for flow in (FORM, MAIL, POST))


@pytest.fixture
def four_flows():
    """Three training pairs and a test pair."""
    return pd.DataFrame(
        {
            "pair": ["training-0", "training-1", "training-2", "test-0"],
            "split": ["training", "training", "training", "test"],
            "request": ["Mail me forms", "Post the forms", "Mail and post", "Post my leads"],
            "dsl": [f"{FORM}\n{MAIL}", f"{FORM}\n{POST}", f"{FORM}\n{MAIL}\n{POST}", f"{FORM}\n{POST}"],
            "apis": [[FORM_API, MAIL_API], [FORM_API, POST_API], [FORM_API, MAIL_API, POST_API], [FORM_API, POST_API]],
        }
    )


@pytest.fixture
def flow_book(tmp_path, four_flows, catalogue):
    """What notebooks 01 and 08 leave for the explorer of workflows; the models are missing."""
    root, model = tmp_path / "workbook", str(tmp_path / "no-model")
    world = Workbook("01_data_gen", notebook_parameters("01_data_gen", profile="smoke", workflow_encoder=model), root)
    world.write("flows", four_flows)
    world.write_lines("catalogue", catalogue.to_lines())
    tuned = Workbook(
        "08_dsl_retrieval",
        notebook_parameters("08_dsl_retrieval", profile="smoke", generator=model, dsl_max_tokens=32),
        root,
    )
    tuned.write("dsl_training_pairs", four_flows[["pair"]].head(2))
    for name in ("adapters/nl2dsl_2/training.json", "encoders/tst/adapter_config.json"):
        (tuned.data / name).parent.mkdir(parents=True)
        (tuned.data / name).write_text("{}")
    return Workbook("explore_workflows", Parameters(profile="smoke"), root)


class WritingModel:
    """Answers every prompt alike and keeps what it was asked; a token is a word, and 500 fit."""

    def __init__(self, flow, finished=True):
        self.flow, self.ended, self.asked = flow, finished, []
        self.config = SimpleNamespace(max_position_embeddings=500)

    def tokenizer(self, text, **settings):
        return {"input_ids": text.split()}

    def generate(self, prompts, **settings):
        self.asked.append((*prompts, settings))
        self.finished = [self.ended]
        self.costs = [SimpleNamespace(tokens_in=len(prompts[0].split()), tokens_out=3, seconds=0.5)]
        return [self.flow]


@pytest.fixture
def writing_model():
    return WritingModel
