"""Follow-ups and hops: what is authored, what is simulated, and that no text gives the answer away."""

from __future__ import annotations

import zlib
from datetime import datetime
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import yaml

from lib.assistant import conversation
from lib.assistant.conversation import (
    ALSO_TOLD,
    ELSEWHERE,
    KINDS,
    KNOWN,
    METHODS,
    RANKER_TOLD,
    TOLD,
    TRAINED,
    TRAINED_BEFORE,
    TUNED,
    TWO_TOLD,
    UNSEEN,
    UNTRAINED,
    WITH_HISTORY,
    Learner,
    conversation_knobs,
    embed_conversation,
    kinds_of,
    phrasings_of,
    score_conversation,
    summarise_conversation,
    weigh_training,
    with_turn_before,
)
from lib.assistant.conversation_controls import (
    LENGTHS,
    OF_FOLLOW_UPS,
    OF_HOPS,
    cut_worlds,
    part_of_hop,
    score_controls,
    turns_of_others,
    weigh_links,
)
from lib.assistant.conversation_searches import alone_and_told
from lib.assistant.hop_needs import read_hop_needs
from lib.assistant.leaks import check_split, leaks
from lib.assistant.needs import FACTS, alternatives, content_of, read_needs, slots_of, texts_of
from lib.assistant.queries import Query, Turn, families_of, follow_ups_of, normal_form
from lib.assistant.ranker_ablation import folds_of_pairs
from lib.assistant.ranking_task import Learning, RankingTask
from lib.assistant.rrf_readings import STORES, WHOLE
from lib.assistant.second_stage import Setting, TwoStages
from lib.assistant.world import frames, read_world, simulate_from
from lib.evaluation.comparison import per_query_scores
from lib.retrieval.bm25 import content_terms
from lib.retrieval.fusion import Fusion
from lib.retrieval.stores import candidate_pairs, cosine_of_pairs, rank_pairs
from lib.workbook.inputs import InputError
from lib.workbook.parameters.worlds import WorldKnobs

SHARES = {"follow_up_share": 0.3, "hop_share": 0.3}
SMALL = {"seed": 5, "n_personas": 60, "n_training_queries": 330, "n_evaluation_queries": 90}


@pytest.fixture(scope="module")
def hops(data, toolbox):
    return read_hop_needs(data / "needs" / "hops", toolbox)


@pytest.fixture(scope="module")
def made(needs, explicit_needs, hops, cast, toolbox):
    return simulate_from([*needs, *explicit_needs, *hops], cast, toolbox, WorldKnobs(**SMALL, **SHARES))


@pytest.fixture(scope="module")
def talk(made):
    return frames(made)


@pytest.fixture(scope="module")
def kinds(talk):
    return pd.Series(kinds_of(talk["gold"]), index=talk["gold"]["query"])


# ---------------------------------------------------------------- what is authored


def test_a_dozen_of_each_and_each_in_a_dozen_ways(needs, hops):
    followed = [need for need in needs if need.follow_ups]
    assert len(followed) >= 12
    assert len(hops) >= 12
    assert all(len({normal_form(text) for text in need.follow_ups.phrasings}) >= 12 for need in followed)
    assert all(len({normal_form(text) for text in need.phrasings}) >= 12 for need in hops)
    assert len({tuple(api for api, _ in keep.calls) for need in hops for keep in need.keeps.values()}) >= 5


def links(need):
    """What every wording of both items of a hop names: roles, facts or variables."""
    parts = [[keep.items[part].wordings for part in ("via", "to")] for keep in need.keeps.values()]
    named = [
        [{slot.partition(".")[0] for value in wording.values() for slot in slots_of(value)} for wording in both]
        for wordings in parts
        for both in wordings
    ]
    return set.intersection(*(names for both in named for names in both))


def test_some_hops_go_through_a_title_that_few_share(hops):
    """Alone: neither a person nor a place leads there. Two parts of it make so many titles that few personas share
    one, and none of its words is a phrasing's."""
    titles = [need for need in hops if need.vars]
    assert len(titles) >= 4
    assert len(hops) - len(titles) >= 12  # through a person or a place
    assert len({keep.calls[-1][0] for need in titles for keep in need.keeps.values()}) >= 4
    assert len({keep.items["to"].app for need in titles for keep in need.keeps.values()}) >= 4
    for need in titles:
        parts = links(need)
        assert len(parts) == 2, need.need
        assert parts <= set(need.vars), need.need
        assert np.prod([len(set(need.vars[part])) for part in parts]) >= 150, need.need
        words = set(content_terms(" ".join(value for part in parts for value in need.vars[part])))
        assert not words & content_of(need.phrasings, {}), need.need


def test_titles_differ_between_personas(made, hops):
    """In a world they do, too: hardly two personas have the same of a need, while its wordings recur."""
    titles = {need.need: links(need) for need in hops if need.vars}
    found = {}
    for persona in made.personas:
        for item in (item for items in dict(persona.apps).values() for item in items):
            found[item.id] = item.text
    told = [entry for entry in made.provenance if entry.need in titles and "/to/" in entry.template]
    assert len(told) > 30
    assert len({found[entry.item_id] for entry in told}) > 0.95 * len(told)
    assert len({entry.template for entry in told}) < 0.7 * len(told)


def test_no_follow_up_is_also_a_plain_phrasing(needs, explicit_needs, hops):
    """Or the same text could stand on both sides: the two are split apart."""
    plain = {
        normal_form(form)
        for family in families_of([*needs, *explicit_needs, *hops])
        for form in alternatives(family.text)
    }
    after = {normal_form(form) for family in follow_ups_of(needs) for form in alternatives(family.text)}
    assert not plain & after


def test_no_name_or_place_makes_a_shorter_way(hops, cast):
    """What fills the slots of `to` shares no word with a phrasing, nor with the first names that phrasings say."""
    names = cast.names
    values = {
        fact: getattr(names, f"{fact[:-1]}ies" if fact.endswith("y") else f"{fact}s", [])
        for fact in FACTS
        if fact in {"street", "gym", "school", "clinic", "cafe", "restaurant", "store", "station", "city", "cuisine"}
    }
    first = set(content_terms(" ".join(names.first_names)))
    last = set(content_terms(" ".join(names.last_names)))
    assert not first & last
    for need in hops:
        said = content_of(need.phrasings, need.vars)
        assert not said & (first | last), need.need
        slots = {slot for keep in need.keeps.values() for text in texts_of(keep.items["to"]) for slot in slots_of(text)}
        chosen = {variable: need.vars[variable] for variable in slots & set(need.vars)}
        words = set(content_terms(" ".join(value for options in chosen.values() for value in options)))
        assert not words & (said | first | last), need.need
        for fact in slots & set(values):
            words = set(content_terms(" ".join(values[fact])))
            assert words, fact
            assert not words & (said | first), (need.need, fact)


def changed(data, tmp_path, name, change):
    record = yaml.safe_load((data / "needs" / f"{name}.yaml").read_text())
    change(record)
    path = tmp_path / f"{record['need']}.yaml"
    path.write_text(yaml.safe_dump(record, allow_unicode=True, sort_keys=False))
    return tmp_path


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda f: f["phrasings"].__setitem__(0, "And with {friend.first}?"), "friend.first"),
        (lambda f: f["phrasings"].__setitem__(0, "And the duet?"), "duet"),
        (lambda f: f["phrasings"].__delitem__(slice(11, None)), "phrasings"),
        (lambda f: f["keeps"].pop("mail"), "must have the keeps"),
        (lambda f: f["keeps"]["mail"].update(about="route"), "may lack the item 'route'"),
        (lambda f: f["keeps"]["mail"].update(plan=['read_mail(subject="{gone.subject}")']), "gone.subject"),
        (lambda f: f["keeps"]["mail"].update(plan=["fly_home()"]), "fly_home"),
    ],
)
def test_a_follow_up_that_is_wrong_is_refused(data, tmp_path, toolbox, change, named):
    folder = changed(data, tmp_path, "music_lesson", lambda record: change(record["follow_ups"]))
    with pytest.raises(InputError, match=named):
        read_needs(folder, toolbox)


def wording(record, item):
    return record["keeps"]["web"]["items"][item]["wordings"][0]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda r: wording(r, "to").update(query="push-ups"), "share 'push'"),
        (lambda r: wording(r, "to").update(query="{friend.last}"), "names 'friend'"),
        (
            lambda r: wording(r, "via").update(title="{friend.first} swears by her"),
            "wording of via names nothing that a wording of to",
        ),
        (lambda r: wording(r, "via").update(title="{coach.name}"), "names nothing that the phrasing"),
        (lambda r: r["phrasings"].__setitem__(0, "Open that site."), "names nothing that the phrasing"),
        (lambda r: r["keeps"]["web"].update(plan=['open_page(title="{via.title}")']), "must name the item to"),
        (lambda r: r["keeps"]["web"]["items"].pop("via"), "via and to"),
        (lambda r: r["phrasings"].__delitem__(slice(11, None)), "phrasings"),
    ],
)
def test_a_hop_that_is_wrong_is_refused(data, tmp_path, toolbox, change, named):
    folder = changed(data, tmp_path, "hops/friends_coach", change)
    with pytest.raises(InputError, match=named):
        read_hop_needs(folder, toolbox)


# ---------------------------------------------------------------- what is simulated


def test_without_their_shares_neither_moves_a_world(needs, explicit_needs, hops, cast, toolbox):
    """The needs' sections and the hops lie there; a world that has no share of them is the same without."""
    bare = [need.model_copy(update={"follow_ups": None}) for need in needs]
    with_hops = simulate_from([*needs, *explicit_needs, *hops], cast, toolbox, WorldKnobs(**SMALL))
    without = simulate_from([*bare, *explicit_needs], cast, toolbox, WorldKnobs(**SMALL))
    assert [persona.model_dump_json() for persona in with_hops.personas] == [
        persona.model_dump_json() for persona in without.personas
    ]
    assert with_hops.queries == without.queries
    assert with_hops.gold == without.gold
    assert "turns" not in frames(with_hops)


def test_a_query_without_history_is_written_as_before():
    query = Query(id="q", persona="p", text="What now?", time=datetime(2023, 12, 14, 15), place="home")
    assert list(query.model_dump()) == ["id", "persona", "text", "time", "place"]
    later = query.model_copy(update={"history": Turn(text="When?", plan="default()")})
    assert Query.model_validate_json(later.model_dump_json()) == later


def test_the_kinds_have_their_shares(kinds):
    """Nearly: a persona may fit no such need, or lack the room for its item."""
    shares = kinds.value_counts(normalize=True)
    assert set(shares.index) == set(KINDS)
    assert 0.2 < shares["follow-up"] <= 0.301
    assert 0.2 < shares["hop"] <= 0.33  # a query of another group may fall back on a hop


def test_a_follow_up_has_the_turn_before_it_and_is_about_the_same_need(made, talk, kinds):
    histories = {query.id: query.history for query in made.queries if query.history}
    assert set(histories) == set(kinds.index[kinds == "follow-up"]) == set(talk["turns"]["query"])
    gold = talk["gold"].set_index("query")
    need_of = talk["provenance"].set_index("item")["need"]
    for query in histories:
        assert gold.loc[query, "phrasing"].startswith(gold.loc[query, "need"] + "/follow_up/")
        assert {need_of[item] for item in gold.loc[query, "relevant"]} == {gold.loc[query, "need"]}
    same_call = [histories[query].plan == gold.loc[query, "plan"] for query in histories]
    assert np.mean(same_call) < 0.5  # a change of mind may be told by the same call


def test_the_same_words_ask_for_different_items(talk, kinds):
    """Nobody can know what a follow-up is about from its text: many texts ask for several items."""
    after = talk["gold"].set_index("query").loc[kinds.index[kinds == "follow-up"]]
    text = talk["queries"].set_index("query")["text"].map(normal_form)[after.index]
    assert (after["relevant"].str[0].groupby(text).transform("nunique") > 1).mean() > 0.3


def test_sides_stay_apart(talk):
    check_split(leaks(talk), "phrasing")


def test_the_same_seed_gives_the_same_conversation(made, needs, explicit_needs, hops, cast, toolbox):
    again = simulate_from([*needs, *explicit_needs, *hops], cast, toolbox, WorldKnobs(**SMALL, **SHARES))
    assert (again.queries, again.gold) == (made.queries, made.gold)


def test_a_world_of_ones_own_may_have_history(records, write_world):
    records["queries"][0]["history"] = {"text": "What is Dough?", "plan": 'open_note(title="Dough")'}
    turns = frames(read_world(write_world(records)))["turns"]
    assert turns.to_dict("records") == [{"query": "a-q0", "text": "What is Dough?", "plan": 'open_note(title="Dough")'}]
    records["queries"][0]["history"] = {"text": "What is Dough?"}
    with pytest.raises(InputError, match=r"line 1.*history.plan"):
        read_world(write_world(records))


# ---------------------------------------------------------------- leaks


def shared_words(talk):
    """By query: whether its text shares a content word with a gold item."""
    words = talk["items"].set_index("item")["text"].map(lambda text: set(content_terms(text)))
    text = talk["queries"].set_index("query")["text"]
    gold = talk["gold"].set_index("query")["relevant"]
    return pd.Series(
        {query: any(set(content_terms(text[query])) & words[item] for item in items) for query, items in gold.items()}
    )


def test_no_hop_shares_a_word_with_its_item_and_no_follow_up_more_than_plain_queries(talk, kinds):
    shared = shared_words(talk).groupby(kinds).mean()
    assert shared["hop"] == 0
    assert shared["follow-up"] <= shared["plain"]
    assert shared["follow-up"] < 0.02
    assert shared["plain"] > 0.05  # the test can see sharing


def test_every_hop_has_a_way_through_another_item(talk, kinds):
    text = talk["queries"].set_index("query")["text"]
    items = talk["items"].set_index("item")
    provenance = talk["provenance"].set_index("item")
    words = items["text"].map(lambda text: set(content_terms(text)))
    for row in talk["gold"].set_index("query").loc[kinds.index[kinds == "hop"]].itertuples():
        [to] = row.relevant
        own = provenance[(provenance["need"] == row.need) & provenance["template"].str.contains("/via/")].index
        own = [item for item in own if items.loc[item, "persona"] == items.loc[to, "persona"]]
        asked = set(content_terms(text[row.Index].replace("'s", "")))
        assert any(asked & words[via] and words[via] & words[to] for via in own), row.Index


DIMENSIONS, LEARNING = 512, Learning([3], seed=5, folds=2)


def encode(texts):
    """Unit-length counts of content words, hashed: an encoder that knows words alone. Without any, a text has zeros, so
    that it is near to none: else long items would be nearest to it."""
    vectors = np.zeros((len(texts), DIMENSIONS))
    for row, text in enumerate(texts):
        for term in content_terms(text):
            vectors[row, zlib.crc32(term.encode()) % DIMENSIONS] += 1
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


FUSION = Fusion((WHOLE, "semantic"), 60)
LEARNER = Learner(Setting(adapted=True), FUSION, LEARNING)


@pytest.fixture(scope="module")
def vectors(talk):
    return embed_conversation(talk, encode)


def of_few(talk, vectors, personas):
    """World and embeddings of its first personas alone."""
    few = talk["queries"]["persona"].unique()[:personas]
    rows = {name: talk[name]["persona"].isin(few).to_numpy() for name in ("items", "queries")}
    small = {name: talk[name][rows[name]].reset_index(drop=True) for name in rows}
    small["opens"] = talk["opens"][talk["opens"]["item"].isin(small["items"]["item"])].reset_index(drop=True)
    small["gold"] = talk["gold"][talk["gold"]["query"].isin(small["queries"]["query"])].reset_index(drop=True)
    return small, {name: vectors[name][rows[name]] for name in rows}


@pytest.fixture(scope="module")
def before(talk, vectors):
    """Searches in the place of those that were trained in the main world."""

    def ranked(asked):
        pairs = candidate_pairs(asked, talk["items"], on="persona")
        return rank_pairs(pairs, cosine_of_pairs(pairs, encode(asked["text"]), vectors["items"]))

    return {name: run for method in TRAINED_BEFORE for name, run in alone_and_told(method, ranked, talk).items()}


@pytest.fixture(scope="module")
def scores(talk, vectors, before):
    return score_conversation(talk, vectors, LEARNER, before)


@pytest.fixture(scope="module")
def found(talk, scores):
    return summarise_conversation(talk, scores, 3, seed=5)


@pytest.fixture(scope="module")
def cut(talk, vectors, scores):
    return weigh_links(talk, scores, score_controls(talk, vectors, encode, LEARNER), 3, seed=5)


def test_no_text_method_beats_its_plain_rate_without_history(found):
    value = found.set_index(["method", "kind"])["value"]
    for method in ("bm25t", "semantic"):
        assert value[method, "follow-up"] < value[method, "plain"]
        assert value[method, "hop"] < value[method, "plain"]


def test_history_helps_follow_ups_and_nothing_else(talk, scores, found, kinds):
    assert found.set_index(["method", "kind"])["gain"][WITH_HISTORY, "follow-up"] > 20
    alone = scores.index.map(kinds) != "follow-up"
    assert set(ALSO_TOLD) == {*TOLD, *TRAINED_BEFORE.values()}
    for method, same in ALSO_TOLD.items():
        assert (scores[method, "recall", 3][alone] == scores[same, "recall", 3][alone]).all()
    for name, told in TRAINED_BEFORE.items():
        assert scores[told, "recall", 3][~alone].mean() > scores[name, "recall", 3][~alone].mean() + 20


def test_what_learns_from_the_turn_before_needs_it(talk, vectors, found, monkeypatch):
    """The ranker and the map that see it find more follow-ups than the same without it; with another's turn less."""
    nothing = np.zeros(len(RankingTask.of_world(talk, vectors, LEARNING).pairs))  # what is unseen takes long
    monkeypatch.setattr(Learner, "on_new_needs", lambda *_: (nothing, nothing))
    value = found.set_index(["method", "kind"])["value"]
    assert value[RANKER_TOLD, "follow-up"] > value["lambdamart", "follow-up"] + 10
    assert value[TWO_TOLD, "follow-up"] > value["lambdamart_2", "follow-up"] + 10
    without, told = TUNED
    assert value[told, "follow-up"] > value[without, "follow-up"] + 10
    strange = turns_of_others(talk, np.random.default_rng(1))
    arrays = vectors | {WITH_HISTORY: encode(with_turn_before(talk["queries"], strange))}
    cut = summarise_conversation(talk, score_conversation(talk, arrays, LEARNER, {}), 3, seed=5)
    lost = cut.set_index(["method", "kind"])["value"]
    assert set(lost.index.unique("method")) == set(METHODS) - set(ELSEWHERE)  # what has no scores has no row
    assert lost[RANKER_TOLD, "follow-up"] < value[RANKER_TOLD, "follow-up"] - 10
    assert lost[TWO_TOLD, "follow-up"] < value[TWO_TOLD, "follow-up"] - 10
    assert lost[told, "follow-up"] < value[told, "follow-up"] - 10


def test_a_tuned_map_saw_none_of_the_persona_that_it_is_asked_about(talk, vectors):
    """Other labels of some personas change nothing of their own cosines where they are one fold."""
    task = RankingTask.of_world(talk, vectors, LEARNING)
    asked = LEARNER.folds(task)[0]
    before = LEARNER.tuned_cosine(task, vectors)
    dealt = np.where(asked, np.roll(task.relevant, 1), task.relevant)
    changed = RankingTask.of_world(talk, vectors, LEARNING)
    changed.__dict__["relevant"] = dealt
    after = LEARNER.tuned_cosine(changed, vectors)
    np.testing.assert_array_equal(before[asked], after[asked])
    assert (before[~asked] != after[~asked]).any()


def test_only_what_can_differ_is_tested(found):
    untested = set(map(tuple, found.loc[found["p_holm"].isna(), ["kind", "method"]].to_numpy()))
    same = {(kind, method) for kind in ("plain", "hop") for method in (*TOLD, *TRAINED_BEFORE.values())}
    assert untested == same | {(kind, "semantic") for kind in KINDS}
    tests = found["p_holm"].notna().sum()
    assert tests == len(KINDS) * (len(METHODS) - 1) - len(same)
    assert found["p_holm"].dropna().between(0, 1).all()


def test_maps_are_cross_fitted_among_what_both_stages_learn_from(talk, vectors, monkeypatch):
    """In each fold of personas anew, and not where the setting has no fine-tuned cosine."""
    seen, learned_from = [], []

    def scores_without(self, setting, learned, asked):
        seen.append((self, learned, asked))
        return np.zeros(asked.sum()), np.zeros(asked.sum())

    def cross_fitted(task, arrays, learned):
        assert arrays is vectors
        learned_from.append(learned)
        return SimpleNamespace(known=np.full(len(learned), float(len(learned_from))))

    monkeypatch.setattr(TwoStages, "scores_without", scores_without)
    monkeypatch.setattr(conversation, "cross_fitted", cross_fitted)
    LEARNER.cross_fitted(talk, vectors)
    assert len(seen) == len(learned_from) == LEARNING.folds
    for number, ((two, learned, asked), maps) in enumerate(zip(seen, learned_from, strict=True), 1):
        assert (learned == ~asked).all()
        assert (learned == maps).all()
        assert (two.cosine == number).all()
    learned_from.clear()
    without = Learner(Setting(), FUSION, LEARNING)
    assert without.maps(RankingTask.of_world(talk, vectors, LEARNING), vectors) == []
    without.cross_fitted(talk, vectors)
    assert not learned_from


# ---------------------------------------------------------------- needs that nothing learned from


@pytest.fixture(scope="module")
def memorable(talk):
    """Embeddings in which nothing but the need leads from a query to its items: each need has an axis of queries and
    another one of items, and no cosine is above 0."""
    need = talk["gold"].set_index("query")["need"][talk["queries"]["query"]]
    about = talk["provenance"].set_index("item")["need"].reindex(talk["items"]["item"])
    names = sorted(set(need))
    axes = np.eye(2 * len(names) + 1)
    found = pd.Index(names).get_indexer(about)  # of other items -1, the last axis
    items = axes[np.where(found < 0, 2 * len(names), len(names) + found)]
    return {"queries": axes[pd.Index(names).get_indexer(need)], "items": items}


def test_a_map_that_learned_needs_by_heart_finds_nothing_of_new_ones(talk, kinds, memorable):
    """Among other personas' needs it looks as if it had understood the queries; it has a table of needs."""
    learner = Learner(Setting(), FUSION, Learning([3], seed=5, folds=4))
    task = RankingTask.of_world(talk, memorable, learner.learning)
    runs = {
        name: rank_pairs(task.pairs, learner.tuned_cosine(task, memorable, new_needs))
        for name, new_needs in (("known", False), ("new", True))
    } | {"untuned": rank_pairs(task.pairs, task.text["semantic"])}
    recall = per_query_scores(runs, task.qrels, task.queries["query"].tolist(), [3])
    value = recall.xs(("recall", 3), axis=1, level=("metric", "k")).groupby(kinds).mean()
    for kind in ("follow-up", "hop"):
        assert value.loc[kind, "known"] > value.loc[kind, "untuned"] + 40
        assert value.loc[kind, "new"] < value.loc[kind, "untuned"] + 10


def test_what_is_learned_from_meets_neither_persona_nor_need_nor_phrasing(talk, vectors):
    task = RankingTask.of_world(talk, vectors, LEARNING)
    gold, fold = talk["gold"].set_index("query").loc[task.pairs["query"]], folds_of_pairs(task)
    for new_needs in (False, True):
        lessons = LEARNER.lessons(task, new_needs)
        assert (np.sum([asked for _, asked in lessons], axis=0) == 1).all()
        for learned, asked in lessons:
            assert not set(task.persona[learned]) & set(task.persona[asked])
            for column in ("need", "phrasing") if new_needs else ():
                values = gold[column].to_numpy()
                assert not set(values[learned]) & set(values[asked])
    assert len(lessons) == LEARNING.folds * len(set(fold))
    assert all(learned.any() for learned, _ in lessons)


def test_labels_of_a_need_change_nothing_that_is_unseen_of_it(talk, vectors):
    """Of one fold of needs the relevant items are dealt anew: its own scores stay as they are, others' change."""
    small, arrays = of_few(talk, vectors, 24)
    before, after = (RankingTask.of_world(small, arrays, LEARNING) for _ in range(2))
    about = folds_of_pairs(before) == 1
    after.__dict__["relevant"] = np.where(about, np.roll(before.relevant, 1), before.relevant)
    told = []
    for task in (before, after):
        maps = LEARNER.maps(task, arrays)
        both = LEARNER.on_new_needs(TwoStages.of(task, arrays["items"]), maps)
        told.append([LEARNER.tuned_cosine(task, arrays, new_needs=True), *both])
    for one, other in zip(*told, strict=True):
        np.testing.assert_array_equal(one[about], other[about])
        assert (one[~about] != other[~about]).any()


def test_what_is_fused_on_new_needs_met_none_of_them(talk, vectors, monkeypatch):
    """Each ranking of all pairs once, by rankers that learned from what `lessons` says."""
    seen = []

    def rank_without(task, names, learned, asked):
        seen.append((names, learned, asked))
        return {STORES: rank_pairs(task.pairs[asked], np.zeros(asked.sum()))}

    monkeypatch.setattr(conversation, "rank_without", rank_without)
    task = RankingTask.of_world(talk, vectors, LEARNING)
    learner = Learner(Setting(), Fusion((WHOLE, STORES), 60), LEARNING)
    run = learner.fused_on_new_needs(task, np.zeros(len(task.pairs)))
    assert len(run) == len(task.pairs)
    assert not run.duplicated(["query", "item"]).any()
    for (names, *told), lesson in zip(seen, learner.lessons(task, new_needs=True), strict=True):
        assert names == [STORES]
        np.testing.assert_array_equal(told, lesson)


def test_what_is_unseen_stands_in_its_rows(talk, vectors, scores):
    task = RankingTask.of_world(talk, vectors, LEARNING)
    arrays = {"queries": vectors[WITH_HISTORY], "items": vectors["items"]}
    runs = {"map": rank_pairs(task.pairs, LEARNER.tuned_cosine(task, arrays, new_needs=True))}
    alone = per_query_scores(runs, task.qrels, scores.index, [3])["map", "recall", 3]
    _, told = TUNED
    assert (scores[f"{told}{UNSEEN}", "recall", 3] == alone).all()
    assert (scores[told, "recall", 3] != alone).any()
    for name in TRAINED:
        assert (scores[name, "recall", 3] != scores[f"{name}{UNSEEN}", "recall", 3]).any()


def test_training_is_weighed_against_known_needs_and_against_no_training(talk, scores, found, kinds):
    weighed = weigh_training(talk, scores, 3, seed=5)
    value = found.set_index(["kind", "method"])["value"]
    assert len(weighed) == len(KINDS) * len(TRAINED) * 2
    for row in weighed.itertuples():
        best = value[row.kind][list(UNTRAINED)].idxmax()
        assert row.against in (KNOWN, best)
        other = value[row.kind, row.method if row.against == KNOWN else best]
        assert row.value == pytest.approx(value[row.kind, row.method + UNSEEN])
        assert row.other == pytest.approx(other)
        assert row.difference == pytest.approx(row.value - other)
        assert row.n == (kinds == row.kind).sum()
    assert weighed["p_holm"].between(0, 1).all()
    assert (weighed["p_holm"] > 2 / 10_000).all()  # over the whole family: of one test it could be less


def test_phrasings_are_counted_by_who_uses_them():
    """Two needs in three phrasings; one phrasing is of two personas, another of one persona twice."""
    rows = [
        ("a", "p", "tea", "tea/hop/0"),
        ("b", "q", "tea", "tea/hop/0"),
        ("c", "p", "jam", "jam/hop/1"),
        ("d", "p", "jam", "jam/hop/1"),
        ("e", "q", "jam", "jam/hop/2"),
        ("f", "q", "jam", "jam/meaning/0"),
    ]
    table = pd.DataFrame(rows, columns=["query", "persona", "need", "phrasing"])
    found = phrasings_of({"queries": table[["query", "persona"]], "gold": table.drop(columns="persona")})
    assert list(found.index) == ["plain", "hop"]
    assert found.loc["hop"].tolist() == [2, 3, 1, 40]
    assert found.loc["plain"].tolist() == [1, 1, 0, 0]


def test_a_world_of_too_few_personas_teaches_nothing(talk, vectors):
    small, arrays = of_few(talk, vectors, 6)  # in two folds: three to learn from
    task, first, second = LEARNER.cross_fitted(small, arrays)
    unseen = LEARNER.on_new_needs(TwoStages.of(task, arrays["items"]), LEARNER.maps(task, arrays))
    for scores in (first, second, *unseen):
        assert not scores.any()
    assert not LEARNER.tuned_cosine(task, arrays, new_needs=True).any()


# ---------------------------------------------------------------- one link cut at a time


def test_a_hop_needs_the_name_between_and_a_follow_up_the_turn_before(cut):
    """Were a hop solved by the habit that both items share, or by words of its need, a stranger's name would not hurt;
    were a follow-up found whatever was said before, another's turn would not."""
    rows = cut.set_index(["kind", "control"])
    for control in OF_HOPS[:2]:
        assert rows["value"]["hop", control] < rows["whole"]["hop", control] * 0.75
    assert rows["value"]["follow-up", OF_FOLLOW_UPS[0]] < rows["whole"]["follow-up", OF_FOLLOW_UPS[0]] / 2


def test_length_alone_finds_neither(cut):
    lengths = cut[cut["control"].isin(LENGTHS)]
    assert len(lengths) == 4
    assert (lengths["value"] < lengths["whole"] / 2).all()


def test_cut_worlds_change_one_link_alone(talk, vectors):
    worlds = cut_worlds(talk, vectors, np.random.default_rng(0))
    via, to = part_of_hop(talk, "via"), part_of_hop(talk, "to")
    current = talk["items"]["item"].map(talk["provenance"].set_index("item")["source"]).ne("stale").to_numpy()
    assert (via & current).sum() == (to & current).sum() > 20  # of an occasion that is over, either may be left
    (hidden, fewer), (renamed, moved) = (worlds[name] for name in OF_HOPS)
    assert set(hidden["items"]["item"]) == set(talk["items"]["item"][~via])
    assert len(fewer["items"]) == len(hidden["items"])
    assert not set(hidden["opens"]["item"]) & set(talk["items"]["item"][via])
    changed = (renamed["items"]["text"] != talk["items"]["text"]).to_numpy()
    assert not changed[~to].any()
    assert changed[to].mean() > 0.9
    assert sorted(renamed["items"]["text"]) == sorted(talk["items"]["text"])
    texts = encode(renamed["items"]["text"].tolist())
    assert np.allclose(moved["items"], texts)
    assert renamed["opens"].equals(talk["opens"])


def test_what_leads_to_an_answer_has_a_habit_of_its_own(talk):
    """Else the habit that both share would lead from one to the other: whoever opens one late would open both late."""
    hour = talk["opens"].groupby("item")["time"].apply(lambda times: times.dt.hour.median())
    need = talk["provenance"].set_index("item")["need"]
    usual = []
    for part in ("via", "to"):
        items = talk["items"][part_of_hop(talk, part)]
        usual.append(items["item"].map(hour).groupby([items["persona"], items["item"].map(need)]).median())
    both = pd.concat(usual, axis=1, keys=["via", "to"]).dropna()
    assert len(both) > 50
    assert abs(both.corr().loc["via", "to"]) < 0.4  # .88 where they share one


def test_another_turn_is_of_another_need(talk):
    turns, need = talk["turns"], talk["gold"].set_index("query")["need"]
    strange = turns_of_others(talk, np.random.default_rng(0))
    assert strange["query"].equals(turns["query"])
    needs_of = {}
    for turn in turns.itertuples():
        needs_of.setdefault((turn.text, turn.plan), set()).add(need[turn.query])
    assert all(needs_of[turn.text, turn.plan] != {need[turn.query]} for turn in strange.itertuples())


def test_every_method_has_a_row_of_every_kind(found, kinds):
    assert found[["kind", "method"]].to_numpy().tolist() == [[kind, method] for kind in KINDS for method in METHODS]
    assert (found["metric"] == "recall@3").all()
    assert found.drop_duplicates("kind").set_index("kind")["n"].to_dict() == kinds.value_counts().to_dict()
    assert (found["ci_low"] <= found["value"]).all()
    assert (found["value"] <= found["ci_high"]).all()


def test_a_leak_would_be_seen(talk, kinds):
    """Were a follow-up to name its item's title, text search would find it: the test above can fail."""
    title = talk["items"].set_index("item")["text"]
    named = talk["gold"].set_index("query")["relevant"].str[0].map(title)
    queries = talk["queries"].copy()
    leaky = queries["query"].map(kinds).eq("follow-up")
    queries.loc[leaky, "text"] = queries.loc[leaky, "query"].map(named)
    leaked = talk | {"queries": queries}
    vectors = {name: encode(leaked[name]["text"].tolist()) for name in ("items", "queries")}
    task = RankingTask.of_world(leaked, vectors, LEARNING)
    run = rank_pairs(task.pairs, task.text["bm25t"])
    recall = per_query_scores({"bm25t": run}, task.qrels, queries["query"].tolist(), [3])["bm25t", "recall", 3]
    value = recall.groupby(kinds).mean()
    assert value["follow-up"] > value["plain"]


def test_the_turn_before_stands_in_front():
    queries = pd.DataFrame({"query": ["p", "q"], "text": ["And then?", "When?"]})
    turns = pd.DataFrame({"query": ["p"], "text": ["Where to?"], "plan": ["default()"]})
    assert with_turn_before(queries, turns) == ["Where to? default() And then?", "When?"]
    assert with_turn_before(queries, turns, plans=False) == ["Where to? And then?", "When?"]
    assert with_turn_before(queries, turns[:0]) == ["And then?", "When?"]


def test_knobs_of_the_world_of_both():
    knobs = conversation_knobs("smoke", 3, 20)
    assert knobs.follow_up_share > 0
    assert knobs.hop_share > 0
    assert knobs.n_personas == 20
    assert knobs.seed != 3  # the main world's: the same people would live there
    assert (WorldKnobs().follow_up_share, WorldKnobs().hop_share) == (0, 0)
    with pytest.raises(ValueError, match="together exceed 1"):
        WorldKnobs(follow_up_share=0.7, hop_share=0.7)
