import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lib.workbook.parameters.worlds import FlowKnobs
from lib.workflows.catalogue import Catalogue
from lib.workflows.drafts import FIRST_PLACEHOLDER, Draft
from lib.workflows.generating import generate
from lib.workflows.pair_checks import read_values
from lib.workflows.wordings import Wordings

DATA = Path(__file__).parents[2] / "data"


@dataclass
class Api:
    keys: set[str] = field(default_factory=set)
    dynamic: bool = False
    trigger: bool = False


@pytest.fixture
def six_apis():
    """Six APIs; a dict of them offers all that validation asks of a catalogue."""
    return {
        "shared_microsoftforms.CreateFormWebhook": Api({"form_id"}, trigger=True),
        "shared_office365.OnNewEmailV3": Api({"folderPath", "importance"}, trigger=True),
        "shared_office365.SendEmailV2": Api({"emailMessage/To", "emailMessage/Subject", "$select", "line item"}),
        "shared_office365users.MyProfile_V2": Api({"$select"}),
        "shared_teams.PostMessageToConversation": Api({"poster", "location", "body/messageBody"}, dynamic=True),
        "shared_service-now.Create-record": Api({"item"}),
    }


@pytest.fixture(scope="session")
def catalogue():
    return Catalogue.load(DATA / "catalogue")


@pytest.fixture(scope="session")
def values():
    return read_values(DATA / "values.yaml")


@pytest.fixture(scope="session")
def pairs(catalogue, values, small):
    return generate(catalogue, values, small)


@pytest.fixture(scope="session")
def small():
    """Of `pairs`."""
    return FlowKnobs(n_training_pairs=1200, n_test_pairs=400, n_unseen_pairs=204)


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
