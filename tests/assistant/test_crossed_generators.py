"""What is learned from one generator's queries, asked in another's words: a small world and a tiny encoder."""

import json
from dataclasses import replace

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from lib.assistant import crossed_generators as module
from lib.assistant.crossed_generators import (
    CUTOFFS,
    MAX_TOKENS,
    METHODS,
    MODEL,
    OTHER,
    SAID_IN_FULL,
    SAME,
    SIDES,
    SIMULATOR,
    WEIGHED,
    WRITER,
    cross,
    crossed,
    method_name,
    questions,
    request_in,
    requests_diversity,
    transfer,
    written,
)
from lib.assistant.pages import generators_crossed as page
from lib.assistant.world import simulate
from lib.generation import local, models
from lib.generation.kept import Kept, key_of
from lib.generation.registry import REGISTRY
from lib.workbook.artifacts import ROOT
from lib.workbook.parameters.generators import Generators
from tests.retrieval.conftest import build_encoder

PARAMETERS = Generators(profile="tiny", seed=5, crossed_personas=60)


@pytest.fixture(scope="module")
def world():
    return simulate(ROOT / "data", PARAMETERS.crossed_world)


@pytest.fixture(scope="module")
def asked(world):
    return questions(world)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return build_encoder(tmp_path_factory.mktemp("tiny"))


def test_a_query_that_needs_an_item_is_asked_for_without_its_own_words(world, asked):
    gold = {entry.query: entry for entry in world.gold}
    text = {query.id: query.text for query in world.queries}
    wanted = {name for name, entry in gold.items() if entry.relevant and SAID_IN_FULL not in entry.phrasing}
    assert set(asked["query"]) == wanted
    assert 0 < len(wanted) < len(gold)
    for query, prompt, item in asked.itertuples(index=False):
        assert item == gold[query].relevant[0]
        last = json.loads(prompt)[-1]
        assert last["role"] == "user"
        assert text[query] not in last["content"]
        assert gold[query].need not in last["content"].split()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("When is it?", "When is it?"),
        ("\n“When is it?”\nNote: short.", "When is it?"),
        ("I'm sorry, but I can't assist with that.", ""),
        ("...", ""),
        ("session w/ marco.", ""),
        ("word " * 41, ""),
    ],
)
def test_what_is_usable(answer, said):
    assert request_in(answer, "Session w/ Marco") == said


def kept_at(path, prompts, answers):
    weights = next(iter(REGISTRY[MODEL].files.values()))
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        {"key": key_of(weights, MAX_TOKENS, prompt), "text": text, "dtype": "bfloat16"}
        for prompt, text in zip(prompts, answers, strict=True)
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def test_kept_answers_are_shown_where_nearly_all_are_there(world, asked, tmp_path):
    assert written(world, "", 4, 5, tmp_path, tmp_path) is None
    answers = ["" if number == 0 else f"Words {number}, please?" for number in range(len(asked))]
    kept_at(tmp_path / module.FILE, asked["prompt"], answers)
    found = written(world, "", 4, 5, tmp_path, tmp_path)
    assert found.model == MODEL
    assert found.crossed.asked == len(asked)
    assert len(found.crossed.texts) == len(asked) - 1
    assert not found.keeper.asked
    texts = found.crossed.texts.set_index("query")
    assert texts[WRITER].to_dict() == dict(zip(asked["query"].iloc[1:], answers[1:], strict=True))
    own = {query.id: query.text for query in world.queries}
    assert texts[SIMULATOR].to_dict() == {name: own[name] for name in texts.index}
    kept_at(tmp_path / module.FILE, asked["prompt"].head(len(asked) // 2), answers[: len(asked) // 2])
    assert written(world, "", 4, 5, tmp_path, tmp_path) is None


def test_a_named_writer_is_asked_for_some(world, asked, tmp_path, monkeypatch):
    class Model:
        dtype = "float32"

        def __init__(self, *args):
            pass

        def generate(self, prompts, max_new_tokens, progress=False):
            return [f"Request {number}" for number in range(len(prompts))]

    monkeypatch.setattr(local, "fingerprint", lambda path, **_: "w")
    monkeypatch.setattr(models, "locate", lambda name: name)
    monkeypatch.setattr(module, "LocalModel", lambda name, **how: None)
    monkeypatch.setattr(module, "Conversations", Model)
    Model.fingerprint = "w"
    found = written(world, "mine", 4, 5, tmp_path, tmp_path)
    side = found.crossed.world["queries"]["split"].value_counts()
    assert side.to_dict() == {"training": 4, "evaluation": 4}
    assert len(Kept.read(tmp_path / module.FILE.name, "w", MAX_TOKENS).answers) == 8


def evaluation_of(data):
    return data.texts[(data.world["queries"]["split"] == "evaluation").to_numpy()]


def both(world, asked, words):
    """The queries in two wordings; `words` makes the second from the first."""
    own = {query.id: query.text for query in world.queries}
    return crossed(world, asked, [words(own[query]) for query in asked["query"]], 5)


def test_the_same_words_give_the_same_rankings(world, asked, tiny, tmp_path):
    data = both(world, asked, lambda text: text)
    assert set(data.world["items"]["persona"]) == set(data.world["queries"]["persona"])
    runs = cross(data, tiny, tmp_path, CUTOFFS, 1)
    assert len(runs) == 2 + len(METHODS) * len(SIDES) ** 2
    for method in METHODS:
        rankings = [runs[method_name(method, learned, side)] for learned in SIDES for side in SIDES]
        for other in rankings[1:]:
            assert other["item"].tolist() == rankings[0]["item"].tolist()
    evaluation = evaluation_of(data)
    assert all(set(run["query"]) == set(evaluation["query"]) for run in runs.values())
    found = transfer(data, runs, 3, 100)
    assert len(found.tests) == len(METHODS) * len(SIDES) * len(WEIGHED)
    same = found.tests[found.tests["learned"] == SAME]
    assert (same["difference"] == 0).all()
    assert not same["settled"].any()
    assert page.finding(found, 3, "M").endswith(
        "; training on the same generator's instead changes Recall@3 by 0.0 points, none of it settled, and up to "
        f"{same['ci_high'].max():.1f} points are not excluded"
    )
    drawing = page.figure(found, 3, "M")
    plt.close("all")
    assert drawing.finding == page.served_words(found)
    gained = found.tests.assign(
        difference=found.tests["difference"].mask(found.tests["learned"] == SAME, [1.5, 0, 2.0, 0, -0.4, 0, 3.1, 0])
    )
    assert "changes Recall@3 by −0.4 to +3.1 points, none of it settled" in page.finding(
        found._replace(tests=gained), 3, "M"
    )


def test_what_words_cost_is_measured_on_the_same_queries(world, asked):
    """Rankings that are right where learned and asked words agree, and the other way round elsewhere."""
    data = both(world, asked, lambda text: text.upper())
    gold = data.world["gold"].set_index("query")["relevant"]
    evaluation = evaluation_of(data)["query"]

    def run(right):
        order = [["wrong-1", "wrong-2", "wrong-3", *gold[query]][:: -1 if right else 1] for query in evaluation]
        rows = pd.DataFrame({"query": evaluation.to_numpy(), "item": order}).explode("item")
        rank = rows.groupby("query").cumcount() + 1
        return rows.assign(rank=rank, score=-rank).reset_index(drop=True)

    runs = {f"semantic//{side}": run(False) for side in SIDES}
    runs |= {method_name(m, a, b): run(a == b) for m in METHODS for a in SIDES for b in SIDES}
    found = transfer(data, runs, 3, 100)
    assert set(found.values["n"]) == {len(evaluation)}
    for method in METHODS:
        for side in SIDES:
            assert found.test(method, side, SAME)["difference"] > 90
            assert found.test(method, side, SAME)["settled"]
            assert found.test(method, side, OTHER)["difference"] == 0
    gain = found.tests.loc[found.tests["learned"] == SAME, "difference"]
    said = page.finding(found, 3, "M")
    assert said.startswith("Trained on the other generator's queries, rankings beat semantic search in 0 of 4 cases")
    assert (
        f"; training on the same generator's instead changes Recall@3 by {page.number(gain.min(), 1, sign=True)}"
        in said
    )
    assert "points, settled for fine-tuned search in the simulator's words " in said
    assert len(page.served_words(found)) < len(said)
    table = page.table(found, 3, "M").frame
    assert table["learned from the other"].str.startswith("0.0").all()
    assert table["same − other"].str.endswith("*").all()
    assert not table["other − untrained"].str.endswith("*").any()
    assert set(table["asked in words of"]) == {"the simulator's", "M's"}
    own = found.values.set_index(["method", "learned", "asked"]).loc[("finetuned", SIMULATOR, SIMULATOR), "value"]
    drawing = page.figure(found, 3, "M")
    plt.close("all")
    assert f"asked in the simulator's words, learned from the simulator's {own:.1f}%, M's 0.0%" in drawing.alt
    varied = requests_diversity(data)
    table = page.words_table(replace(data, asked=len(data.texts)), varied, "M")
    assert "that M was asked for. Words:" in table.caption
    more = page.words_table(replace(data, asked=len(data.texts) + 1), varied, "M")
    assert "; the others got no usable answer. Words:" in more.caption
    words = table.frame
    assert words["words"].iloc[0] == words["words"].iloc[1]
    assert len(page.examples_table(data, "M").frame) == 3


def test_requests_are_as_varied_as_their_texts_are_different(world, asked):
    """A writer with two texts for all, beside the simulator."""
    data = both(world, asked, lambda text: "Where is it?" if len(text) % 2 else "When is it?")
    varied = requests_diversity(data)
    values, n = varied.set_index(["side", "measure"])["value"], len(data.texts)
    assert set(varied["side"]) == set(SIDES)
    assert set(varied["n"]) == {n}
    assert values[WRITER, "distinct_texts"] == pytest.approx(100 * 2 / n)
    assert values[WRITER, "distinct_1"] == pytest.approx(100 * 4 / (3 * n)), "where, when, is, it"
    assert values[WRITER, "distinct_2"] == pytest.approx(100 * 3 / (2 * n))
    assert values[WRITER, "words"] == 3
    assert values[SIMULATOR, "distinct_texts"] == pytest.approx(100 * data.texts[SIMULATOR].nunique() / n)
    assert requests_diversity(data).equals(varied)
    said = page.variety_sentence(varied, "M")
    assert said.startswith(
        "These requests of M are less varied than the simulator's by 2 of 2 measures: distinct-1 "
        f"{100 * 4 / (3 * n):.1f}% (the simulator's {values[SIMULATOR, 'distinct_1']:.1f}%), distinct-2 "
    )
    assert said.endswith(
        f"Different texts do not count ({100 * 2 / n:.1f}% beside {values[SIMULATOR, 'distinct_texts']:.1f}%): the "
        "simulator refuses to say a text twice."
    )
    table = page.words_table(data, varied, "M").frame.set_index("requests in words of")
    assert table.loc["M's", "different texts, %"] == pytest.approx(100 * 2 / n)
    assert table.loc["M's", "distinct-2, %"] == pytest.approx(150 / n)
    people = data.world["queries"]["persona"].nunique()
    assert page.words_table(data, varied, "M").caption.endswith(f"They are {people} personas' requests.")
    turned = varied.replace({"side": {SIMULATOR: WRITER, WRITER: SIMULATOR}})
    assert "are more varied than the simulator's by 2 of 2 measures: " in page.variety_sentence(turned, "M")
    turned.loc[turned["measure"] == "distinct_1", "value"] = [8.0, 9.0]
    assert " less varied than the simulator's by 1 of 2 measures and more by 1: " in page.variety_sentence(turned, "M")


def test_whoever_says_the_same_is_as_varied(world, asked):
    said = page.variety_sentence(requests_diversity(both(world, asked, lambda text: text.upper())), "M")
    assert " by 0 of 2 measures: distinct-1 " in said
