"""The full-size world: its published sizes, the consistency of its labels, and that nothing gives the answer away."""

from __future__ import annotations

import ast
import json
import re

import numpy as np
import pytest
from scipy import stats

from lib.assistant.named_worlds import group_shares
from lib.assistant.queries import normal_form
from lib.assistant.schemas import APPS, Persona, WorldKnobs
from lib.assistant.toolbox import DEFAULT_API

TABLE_4 = {
    "mail": 2.93,
    "calendar": 5.63,
    "google": 9.57,
    "notes": 2.23,
    "music": 4.38,
    "reminders": 4.81,
    "phone_call": 2.34,
}


def auc(positive: np.ndarray, score: np.ndarray) -> float:
    """Probability that a positive scores higher than a negative; ties count half."""
    positive, ranks = np.asarray(positive), stats.rankdata(score)
    n = positive.sum()
    return (ranks[positive].sum() - n * (n + 1) / 2) / (n * (len(positive) - n))


def parse_plan(plan: str) -> list[tuple[str, dict]]:
    calls = [ast.parse(line, mode="eval").body for line in plan.split("\n")]
    assert all(isinstance(call, ast.Call) and not call.args for call in calls)
    return [(call.func.id, {part.arg: ast.literal_eval(part.value) for part in call.keywords}) for call in calls]


# ---------------------------------------------------------------- sizes


def test_sizes(world, tables):
    assert len(world.personas) == 791
    assert tables["queries"]["split"].value_counts().to_dict() == {"training": 4338, "evaluation": 936}
    assert list(tables["gold"]["query"]) == list(tables["queries"]["query"])
    assert tables["items"]["item"].is_unique
    assert tables["queries"]["query"].is_unique


def test_every_persona_asks_on_one_side_only(world, tables):
    queries = tables["queries"]
    assert (queries.groupby("persona")["split"].nunique() == 1).all()
    assert set(queries["persona"]) == {persona.id for persona in world.personas}


def test_items_per_app(tables):
    means = tables["items"].groupby("app").size() / 791
    for app, published in TABLE_4.items():
        assert means[app] == pytest.approx(published, rel=0.05), app


def test_query_texts_are_unique(tables):
    assert tables["queries"]["text"].map(normal_form).is_unique


def test_query_texts_are_finished_sentences(tables):
    text = tables["queries"]["text"]
    assert (text.str.len() >= 4).all()
    assert not text.str.contains(r"[\[\]{}|]|  |^\s|\s$").any()


def test_kinds_have_their_shares_on_both_sides(tables):
    """Thirds of the queries that leave their arguments to items; the others are never resolved by habit alone."""
    kept = group_shares(WorldKnobs())["kept"]
    worded = kept / 3 + (1 - kept) / 2
    for _, part in tables["gold"].groupby("split"):
        shares = part["kind"].value_counts(normalize=True)
        assert shares.to_dict() == pytest.approx({"meaning": worded, "habit": kept / 3, "either": worded}, abs=0.002)


def test_number_of_gold_items(tables):
    sizes = tables["gold"]["relevant"].str.len()
    assert sizes.between(1, 5).all()
    assert 1.7 <= sizes.mean() <= 2.4
    assert (tables["gold"]["relevant"].map(lambda found: len(set(found))) == sizes).all()


def test_gold_spans_apps(tables):
    app = tables["items"].set_index("item")["app"]
    assert tables["gold"]["relevant"].map(lambda found: app[found].nunique() > 1).mean() > 0.4


def test_gold_belongs_to_the_persona_and_to_the_need(tables):
    persona = tables["items"].set_index("item")["persona"]
    asker = tables["queries"].set_index("query")["persona"]
    source = tables["provenance"].set_index("item")
    pairs = tables["gold"][["query", "need", "relevant"]].explode("relevant")
    assert (pairs["relevant"].map(persona) == pairs["query"].map(asker)).all()
    own = pairs["relevant"].map(source["need"]) == pairs["need"]
    assert (pairs["relevant"].map(source["source"]) == "need")[own].all()
    assert own.groupby(pairs["query"]).any().all()
    plans = tables["gold"].set_index("query")["plan"]
    assert pairs.loc[~own, "query"].map(plans).str.startswith("list_events(").all(), "what else is on that day"
    assert (~own).any()


def test_what_lists_a_day_has_the_events_of_that_day(tables):
    """All of them that are yet to come, as far as there is room, and nothing else."""
    items = tables["items"].merge(tables["queries"][["query", "persona", "time"]], on="persona")
    listing = tables["gold"][tables["gold"]["plan"].str.startswith("list_events(")].set_index("query")
    events = items[items["query"].isin(listing.index) & (items["app"] == "calendar")]
    day = events["query"].map(listing["plan"].str.extract(r'date="([^"]+)"')[0])
    on_it = events[(events["shown"].dt.strftime("%Y-%m-%d") == day) & (events["shown"] >= events["time"])]
    there = on_it.groupby("query")["item"].agg(set)
    for query, relevant in listing["relevant"].items():
        assert set(relevant) <= there[query]
        assert len(relevant) == min(len(there[query]), 5)


def test_shares_of_plans(tables):
    apis = tables["gold"]["apis"]
    assert 0.03 <= (apis.str[0] == DEFAULT_API).mean() <= 0.08
    assert 0.07 <= (apis.str.len() == 2).mean() <= 0.13
    assert apis.str.len().isin([1, 2]).all()


def test_every_item_comes_from_one_source(tables):
    provenance = tables["provenance"]
    assert set(provenance["item"]) == set(tables["items"]["item"])
    assert len(provenance) == len(tables["items"])
    assert set(provenance["source"]) == {"need", "unasked", "stale", "decoy", "background"}


# ---------------------------------------------------------------- time


def test_opens_precede_today_or_the_end_of_the_log_and_queries_follow(world, tables, habitual_tables):
    today = {persona.id: persona.today for persona in world.personas}
    until = {persona.id: persona.log_until or persona.today for persona in world.personas}
    queries = tables["queries"]
    for part, ends in ((habitual_tables, today), (tables, until)):
        persona = part["opens"]["item"].map(part["items"].set_index("item")["persona"])
        assert (part["opens"]["time"] <= persona.map(ends)).all()
        lag = persona.map(today) - part["opens"]["time"]
        assert lag.dt.days.max() <= 56
        assert (lag.dt.total_seconds() > 0).all() or ends is until
    wait = queries["time"] - queries["persona"].map(today)
    assert (wait.dt.total_seconds() >= 0).all()
    assert (wait.dt.days < 7).all()


def test_weekday_belongs_to_the_time(tables):
    assert (tables["queries"]["weekday"] == tables["queries"]["time"].map(lambda moment: moment.weekday())).all()


def test_every_item_was_opened(tables):
    assert set(tables["opens"]["item"]) == set(tables["items"]["item"])


def test_songs_searches_and_calls_show_their_last_use(habitual_tables):
    """Where the log goes on after the data were collected, the last use before that: see test_extra_opens.py."""
    items = habitual_tables["items"][habitual_tables["items"]["app"].isin(["music", "google", "phone_call"])]
    assert (items["shown"] == items["item"].map(habitual_tables["opens"].groupby("item")["time"].max())).all()


def test_mails_and_notes_came_before_their_first_use(tables):
    items = tables["items"][tables["items"]["app"].isin(["mail", "notes"])]
    assert (items["shown"] < items["item"].map(tables["opens"].groupby("item")["time"].min())).all()


def test_events_of_asked_needs_lie_ahead_of_the_query(tables):
    """An event that a query asks about has not passed when the query is voiced."""
    items = tables["items"].set_index("item")
    pairs = tables["gold"][["query", "relevant"]].explode("relevant")
    pairs = pairs[pairs["relevant"].map(items["app"]).isin(["calendar", "reminders"])]
    voiced = pairs["query"].map(tables["queries"].set_index("query")["time"])
    assert (pairs["relevant"].map(items["shown"]) >= voiced).all()


# ---------------------------------------------------------------- labels


def test_top_apps(world):
    for gold in world.gold:
        assert 1 <= len(gold.apps) <= 3
        assert len(set(gold.apps)) == len(gold.apps)
        assert set(gold.apps) <= set(APPS)
        if gold.apis[0] != DEFAULT_API:
            assert gold.apps[0] == world.toolbox[gold.apis[0]].app


def test_plans_parse_and_call_the_toolbox(world):
    for gold in world.gold:
        calls = parse_plan(gold.plan)
        assert [api for api, _ in calls] == gold.apis
        for api, arguments in calls:
            if api == DEFAULT_API:
                assert (len(calls), arguments) == (1, {})
                continue
            known = world.toolbox[api].arguments
            assert set(arguments) <= set(known)
            assert {name for name, argument in known.items() if argument.required} <= set(arguments)


def test_answers_agree_with_the_plan(world, needs):
    """Berkeley format: a list of {api: {argument: [acceptable values]}}; optional arguments accept "" unless the query
    says them, and then a person may be named in full, too."""
    kept = {need.need for need in needs}
    for gold in world.gold:
        calls = parse_plan(gold.plan)
        assert len(gold.answers) == len(calls)
        for answer, (api, arguments) in zip(gold.answers, calls, strict=True):
            assert list(answer) == [api]
            assert set(answer[api]) == set(arguments)
            for name, acceptable in answer[api].items():
                required = world.toolbox[api].arguments[name].required
                plain = [arguments[name]] if required else [arguments[name], ""]
                if gold.need in kept:
                    assert acceptable == plain
                else:
                    assert acceptable == plain or (acceptable[0] == arguments[name] and "" not in acceptable)


def test_a_person_may_be_named_in_full_where_the_query_says_the_first_name(world):
    """The test above would pass on a world without any."""
    ways = [
        values
        for gold in world.gold
        for answer in gold.answers
        for api in answer.values()
        for values in api.values()
        if len(values) > 1 and "" not in values
    ]
    assert len(ways) > 50


def test_optional_arguments_occur(world):
    """The test above would pass on a world without any."""
    assert (
        sum(
            "" in values
            for gold in world.gold
            for answer in gold.answers
            for api in answer.values()
            for values in api.values()
        )
        > 50
    )


def test_answers_stand_in_the_frame_as_json(world, tables):
    assert [json.loads(text) for text in tables["gold"]["answers"]] == [gold.answers for gold in world.gold]


def test_personas_are_valid(world):
    for persona in world.personas[::40]:
        assert Persona.model_validate_json(persona.model_dump_json()) == persona


# ---------------------------------------------------------------- what gives the answer away


def test_visible_frames_have_no_label(tables):
    assert list(tables["items"]) == ["persona", "item", "app", "title", "text", "shown"]
    assert list(tables["opens"]) == ["item", "time", "place"]
    assert list(tables["queries"]) == ["query", "persona", "split", "text", "time", "weekday", "place"]


def test_ids_name_nothing_but_the_persona(tables):
    for frame, column, tail in (("items", "item", r"[0-9a-f]{8}"), ("queries", "query", r"q\d+")):
        assert tables[frame][column].str.fullmatch(rf"p\d{{4}}-{tail}").all()
        assert (tables[frame][column].str.split("-").str[0] == tables[frame]["persona"]).all()


def test_texts_hold_no_id(tables):
    ids = set(tables["items"]["item"]) | {item.split("-")[1] for item in tables["items"]["item"]}
    ids |= set(tables["items"]["persona"]) | {family.lower() for family in tables["gold"]["phrasing"]}
    for text in [*tables["queries"]["text"], *tables["items"]["text"]]:
        assert ids.isdisjoint(re.findall(r"[\w/-]+", text.lower())), text


def test_number_of_a_query_does_not_tell_its_kind(tables):
    number = tables["queries"]["query"].str.extract(r"q(\d+)$")[0].astype(int)
    for kind in ("meaning", "habit", "either"):
        assert auc(tables["gold"]["kind"] == kind, number) == pytest.approx(0.5, abs=0.03)


def test_id_and_order_of_items_do_not_tell_gold(usage):
    """Stale items are set aside: their matter is over, which their time shows and is meant to show."""
    groups = usage.groupby(["persona", "app"])["item"]
    usage = usage.assign(
        position=(groups.cumcount() + 0.5) / groups.transform("size"),
        value=usage["item"].str[-8:].map(lambda x: int(x, 16)),
    )
    several = usage[(groups.transform("size") > 1) & (usage["source"] != "stale")]
    assert auc(several["gold"], several["position"]) == pytest.approx(0.5, abs=0.02)
    assert auc(several["gold"], several["value"]) == pytest.approx(0.5, abs=0.02)
    for app, part in several.groupby("app"):
        assert auc(part["gold"], part["position"]) == pytest.approx(0.5, abs=0.06), app
    everything = usage[groups.transform("size") > 1]
    assert auc(everything["gold"], everything["position"]) == pytest.approx(0.5, abs=0.07)


def test_gold_is_opened_no_more_often(usage):
    gold, background = usage[usage["gold"]]["opens"], usage[usage["source"] == "background"]["opens"]
    assert gold.mean() == pytest.approx(background.mean(), rel=0.05)
    assert gold.var() == pytest.approx(background.var(), rel=0.15)
    assert stats.ks_2samp(gold, background).statistic < 0.03
    assert auc(usage["gold"], usage["opens"]) == pytest.approx(0.5, abs=0.02)


def test_gold_is_opened_no_more_recently(usage):
    live = usage[usage["source"] != "stale"]
    assert auc(live["gold"], -live["hours_ago"]) == pytest.approx(0.5, abs=0.02)
    gold, background = live[live["gold"]]["hours_ago"], live[live["source"] == "background"]["hours_ago"]
    assert stats.ks_2samp(gold, background).statistic < 0.04


@pytest.mark.parametrize(("column", "ascending"), [("opens", False), ("hours_ago", True)])
def test_most_used_item_is_gold_as_often_as_chance(usage, tables, column, ascending):
    top = usage.sort_values(column, ascending=ascending, kind="stable").groupby("persona")["item"].first()
    n_items = usage.groupby("persona").size()
    persona = tables["queries"].set_index("query")["persona"]
    rows = [
        (persona[query], found)
        for query, found in zip(tables["gold"]["query"], tables["gold"]["relevant"], strict=True)
    ]
    hits = np.mean([top[name] in found for name, found in rows])
    chance = np.mean([len(found) / n_items[name] for name, found in rows])
    assert hits == pytest.approx(chance, abs=0.02)


def test_stale_items_ended_weeks_ago(usage):
    assert usage[usage["source"] == "stale"]["hours_ago"].min() >= 28 * 24
