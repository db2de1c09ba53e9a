"""Writers of chains of thought trained once more, without a language model: who learns what, and what is kept."""

from dataclasses import replace

import pandas as pd
import pytest

from lib.assistant import retrained, retrained_writers
from lib.assistant.pages import finetuned_search_reading as reading
from lib.assistant.prompts import distilled_cot_prompt
from lib.assistant.retrained import FILE, NO_RANKINGS, SEED, WITHOUT, Variant, never_told, of_other_seeds, to_keep
from lib.assistant.retrained_writers import (
    DISTILLED,
    FINETUNED_COT,
    METHODS,
    Rewriting,
    on_first_fold,
    rankings,
    trained,
)
from lib.workbook.parameters.cot_augmentation import CoTAugmentation
from lib.workbook.parameters.finetuned_search import FinetunedSearch
from tests.assistant.test_retrained import retraining_of

WRITING = CoTAugmentation(
    profile="p", seed=7, writer="small", shipped_writer_pairs=0, distilled_pairs=5, cot_training_queries=5
)


@pytest.fixture(autouse=True)
def no_weights(monkeypatch):
    monkeypatch.setattr(retrained_writers, "fingerprint", lambda path: f"weights of {path}")
    monkeypatch.setattr(retrained_writers, "locate", lambda name: name)


def rewriting_of(small_world, encoder="none", writing=WRITING, **changed):
    queries, _, gold, _ = small_world
    gold = changed.pop("gold", gold)
    gold = gold.assign(split=queries["split"], kind="plain")
    gold = gold.assign(cot=changed.pop("cot", "look for " + gold["need"]))
    queries = changed.get("queries", queries)
    return Rewriting.of_world(retraining_of(small_world, encoder, **changed), queries, gold, writing, None)


def test_neither_writer_nor_encoder_met_the_needs_that_are_new(small_world):
    again = rewriting_of(small_world)
    assert not again.shipped
    queries, _, gold, _ = small_world
    side, need = queries.set_index("query")["split"], gold.set_index("query")["need"]
    for variant in again.retraining.variants:
        learned, asked = again.dealt(variant)
        assert len(learned)
        assert len(asked)
        assert not set(learned["persona"]) & set(asked["persona"])
        assert set(side[learned["query"]]) == set(side[asked["query"]]) == {"training"}
        met = set(need[learned["query"]]) | set(need[asked["query"]])
        if variant.kind == WITHOUT:
            assert not met & set(need[again.retraining.asked(variant)["query"]])
        else:
            assert not met & again.retraining.lesson.held_out


def test_labels_of_evaluation_queries_change_nothing_that_is_learned(small_world):
    queries, _, gold, _ = small_world
    true = queries["split"] == "evaluation"
    cot = ("look for " + gold["need"]).where(~true, "the answer")
    for variant in (again := rewriting_of(small_world)).retraining.variants:
        for one, other in zip(again.dealt(variant), rewriting_of(small_world, cot=cot).dealt(variant), strict=True):
            pd.testing.assert_frame_equal(one, other)


def test_another_seed_is_another_training_from_the_same_pairs(small_world):
    again = rewriting_of(small_world)
    one, two = Variant(SEED, 1), Variant(SEED, 2)
    assert [again.settings(variant).seed for variant in (one, two)] == [8, 9]
    assert again.settings(Variant(WITHOUT, 3)).seed == 7
    pd.testing.assert_frame_equal(again.dealt(one)[0], again.dealt(two)[0])


def test_a_writer_learns_from_experts_and_is_shown_the_text_alone(small_world, tmp_path, monkeypatch):
    seen = {}

    class Model:
        def __init__(self, name, adapter, cache):
            seen["adapter"] = adapter

        def generate(self, prompts, max_new_tokens, progress):
            seen["asked"] = prompts
            return [f"line\n{number}" for number in range(len(prompts))]

        def unload(self):
            seen["unloaded"] = True

    def adapter_for(part, model, prompts, targets, output, settings, progress):
        seen.update(prompts=prompts, targets=targets, settings=settings)
        return type("Adapter", (), {"folder": output})

    monkeypatch.setattr(retrained_writers, "LocalModel", Model)
    monkeypatch.setattr(retrained_writers, "adapter_for", adapter_for)
    again, variant = rewriting_of(small_world), Variant(SEED, 2)
    learned, asked = again.dealt(variant)
    cots = again.written(variant, tmp_path)
    assert seen["targets"] == learned["cot"].tolist()
    assert seen["prompts"] == [distilled_cot_prompt(text) for text in learned["text"]]
    both = [*again.retraining.queries["text"], *asked["text"]]
    assert seen["asked"] == [distilled_cot_prompt(text) for text in both]
    assert cots == {
        query: f"line {number}" for number, query in enumerate([*again.retraining.queries["query"], *asked["query"]])
    }
    assert seen["settings"].seed == 9
    assert seen["unloaded"]
    nothing = rewriting_of(small_world, cot="")
    assert nothing.written(variant, tmp_path) == {}
    assert trained(nothing, tmp_path) is NO_RANKINGS


def test_both_searches_read_the_chains_and_rank_what_is_asked(small_world, tiny, tmp_path, monkeypatch):
    again, gold = rewriting_of(small_world, tiny), small_world[2].set_index("query")["need"]
    met = []

    def watched(queries, *rest):
        met.append(queries)
        return original(queries, *rest)

    original = retrained.training_rows
    monkeypatch.setattr(retrained, "training_rows", watched)

    def written(self, variant, folder, progress=False):
        asked = [*self.retraining.asked(variant)["query"], *self.dealt(variant)[1]["query"]]
        return dict.fromkeys(asked, f"chain {variant.name}")

    monkeypatch.setattr(Rewriting, "written", written)
    found = trained(again, tmp_path)
    assert set(found["method"]) == set(METHODS)
    for variant, learned in zip(again.retraining.variants, met, strict=True):
        asked = set(again.retraining.asked(variant)["query"])
        rows = found[found["variant"] == variant.name]
        assert all(set(part["query"]) == asked for _, part in rows.groupby("method"))
        assert learned["text"].str.endswith(f" chain {variant.name}").all()
        if variant.kind == WITHOUT:
            assert not set(gold[learned["query"]]) & set(gold[list(asked)])
    first = {DISTILLED: found[found["variant"] == "seed_1"].query("method == 'cot_distilled'")}
    held_out = again.retraining.asked(Variant(WITHOUT, 0))["query"]
    joined = never_told(on_first_fold(first, held_out), found)
    assert set(joined[f"{DISTILLED}_unseen_needs"]["query"]) == set(again.retraining.queries["query"])
    assert f"{FINETUNED_COT}/1" in of_other_seeds(found)


def test_what_is_kept_is_found_in_this_world_by_the_shipped_writer_alone(small_world, tiny, tmp_path):
    again = replace(
        rewriting_of(small_world, tiny), shipped=True, parameters=WRITING.model_copy(update={"shipped_writer_pairs": 5})
    )
    rows = pd.DataFrame({"variant": ["seed_1"], "method": [DISTILLED], "query": ["q"], "item": ["i"], "rank": [1]})
    rows = rows.assign(score=0.5)
    (tmp_path / FILE).parent.mkdir(parents=True)
    to_keep(rows, again.key).to_parquet(tmp_path / FILE)
    off = FinetunedSearch(profile="p", seed=7)
    found, from_project = rankings(again, 3, off, tmp_path, tmp_path, False)
    pd.testing.assert_frame_equal(found, rows)
    assert from_project
    others = (
        replace(again, shipped=False),
        replace(again, training=again.training.assign(cot="lemon")),
        replace(again, training=again.training.assign(text="lemon")),
        replace(again, parameters=again.parameters.model_copy(update={"cot_max_tokens": 9})),
        replace(again, parameters=again.parameters.model_copy(update={"distilled_epochs": 2})),
    )
    for other in others:
        found, from_project = rankings(other, 3, off, tmp_path, tmp_path, False)
        assert (len(found), from_project) == (0, False)


def test_the_page_says_where_the_rankings_are_from():
    rows = pd.DataFrame({"variant": ["without_1", "without_1", "seed_1"]})
    assert "2 more times; rankings with these are kept" in reading.writers_in_words(rows, True)
    assert reading.writers_in_words(rows, False).endswith("2 more times here.")
    assert "`retrain_writers`" in reading.writers_in_words(NO_RANKINGS, False)
