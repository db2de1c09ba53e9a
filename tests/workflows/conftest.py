import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

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
