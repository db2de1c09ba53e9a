from dataclasses import dataclass, field

import pytest


@dataclass
class Api:
    keys: set[str] = field(default_factory=set)
    dynamic: bool = False
    trigger: bool = False


@pytest.fixture
def catalogue():
    """Six APIs; a dict of them offers all that validation asks of a catalogue."""
    return {
        "shared_microsoftforms.CreateFormWebhook": Api({"form_id"}, trigger=True),
        "shared_office365.OnNewEmailV3": Api({"folderPath", "importance"}, trigger=True),
        "shared_office365.SendEmailV2": Api({"emailMessage/To", "emailMessage/Subject", "$select", "line item"}),
        "shared_office365users.MyProfile_V2": Api({"$select"}),
        "shared_teams.PostMessageToConversation": Api({"poster", "location", "body/messageBody"}, dynamic=True),
        "shared_service-now.Create-record": Api({"item"}),
    }
