import pytest

from lib.workbook.inputs import InputError
from lib.workbook.parameters.worlds import FlowKnobs
from lib.workflows.apis import SHARED_IDS
from lib.workflows.catalogue import Catalogue
from lib.workflows.distribution import FlowDistribution


def test_a_catalogue_without_phrases_is_an_error(catalogue):
    bare = Catalogue({}, catalogue.connectors)
    with pytest.raises(InputError, match="no trigger or no action with phrases"):
        FlowDistribution(bare, FlowKnobs())


def test_common_apis_weigh_more_and_older_siblings_less(catalogue):
    weight = FlowDistribution(catalogue, FlowKnobs(api_spread=0)).weight
    assert weight["shared_office365.SendEmailV2"] == 8.0 * 8.0
    assert weight["shared_office365.SendEmail"] == pytest.approx(0.1 * 8.0 * 8.0, rel=0.9)
    assert weight["shared_office365.SendEmail"] < 0.2 * weight["shared_office365.SendEmailV2"]


def test_what_actions_need_some_call_gives_within_the_connector(catalogue):
    exchange = FlowDistribution(catalogue, FlowKnobs()).exchange
    assert exchange.needs.shape == exchange.provides.shape
    assert exchange.needs.any(axis=1).sum() > 50
    for connector, kind in exchange.column:
        assert any((connector, kind) in given for given in exchange.gives.values())
        assert (connector == "") == (kind == "file" or kind in SHARED_IDS)
    files = exchange.column["", "file"]
    assert exchange.needs[:, files].any()
    assert not exchange.takes_id[:, files].any()
