"""Tables and sentences of notebook 05_lambdamart_rrf about our own ranker, LambdaMART in two stages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from lib.assistant.adapted_cosine import OF_ENCODERS, ROWS
from lib.assistant.pages.common import ranker_name
from lib.assistant.ranker_ablation import CROSS_FITTED, SEEING, TWO_CROSS_FITTED, WITH_FINETUNED
from lib.assistant.unseen_needs import TEXT_TRAINED, UnseenNeeds
from lib.evaluation.comparison import compare
from lib.evaluation.inference import settled
from lib.workbook.display import Drawing, Table, interval, listed, number
from lib.workbook.forest import forest
from lib.workbook.methods import label

if TYPE_CHECKING:
    from lib.assistant.context_scores import ContextScores, RankerScores
    from lib.assistant.second_stage import Choice

OURS = "lambdamart_2"
OTHERS = ("semantic", "lambdamart", "lambdamart_rrf")
LEARNED = ("lambdamart", "lambdamart_rrf", OURS)
COMPARED = {
    "": "nothing",
    "text": "text",
    "log": "usage log",
    "text + log": "text, usage log",
    "text + log + passed on": "text, usage log; neighbours' signals",
}


def _change(row) -> str:
    return interval(*row[["difference", "ci_low", "ci_high"]])


# ---- what was chosen


def choice_table(choice: Choice, alone: pd.DataFrame, n_queries: int) -> Table:
    """The settings that were tried.

    Args:
        alone: recall of the first stage by itself, from `RankingTask.recall_alone`.
        n_queries: training queries.
    """
    recalls = [name for name in alone if name.startswith("recall@")] + ["mean"]
    first = alone[recalls].assign(step="first stage alone", compared="–", top="–", leaves="–", adapted="–")
    trials = choice.trials.assign(
        compared=choice.trials["compared"].map(COMPARED),
        adapted=choice.trials["adapted"].map({True: "yes", False: "no"}),
    )
    last = trials["step"].iloc[-1]
    chosen = [setting == choice.setting and step == last for setting, step in trials[["setting", "step"]].to_numpy()]
    shown = pd.concat([first, trials.assign(chosen=["←" if here else "" for here in chosen])], ignore_index=True)
    names = {"compared": "compared with top items by", "top": "top items", "adapted": "adapted cosine"}
    columns = ["step", "compared", "top", "leaves", "adapted", *recalls, "chosen"]
    return Table(
        shown[columns].fillna("").rename(columns=names),
        f"Recall in percent on the {n_queries:,} training queries, each ranked by a second stage that did not see its "
        "persona (two folds; the first stage alone: as many as above). Chosen step by step, by the mean: the features, "
        "then how many top items, then the leaves of a tree, with the adapted cosine and without it; then the better "
        "of both, of equals the one without. The number of trees is set by early stopping on training personas.",
        text_columns=["step", "compared with top items by", "adapted cosine", "chosen"],
    )


def what_is_chosen(choice: Choice, alone: pd.DataFrame, n_trees: int) -> str:
    """The chosen setting, what it gains on training queries, and whether the adapted cosine does; `n_trees` are the
    final second stage's."""
    setting, before = choice.setting, alone["mean"].iloc[0]
    found = next(row.mean for row in choice.trials.itertuples() if row.setting == setting)
    compared = COMPARED[" + ".join(setting.groups)]
    seen = f"compared with the first stage's {setting.top} best by **{compared}**" if setting.groups else "not compared"
    seen += " and see what their neighbours' own signals say" if setting.passed_on else ""
    return (
        f"Chosen: items are {seen}, {setting.leaves} leaves. Mean recall on the training queries "
        f"{found:.1f}%, {number(found - before, 1)} points from the first stage alone.{_with_or_without(choice)} "
        f"Trained on all of them, the second stage has {n_trees} trees."
    )


def _with_or_without(choice: Choice) -> str:
    """The last step of the choice, where there was a cosine to see."""
    if choice.side is None:
        return ""
    both = choice.trials.tail(2).set_index("adapted")
    (recall, *_) = [name for name in both if name.startswith("recall@")]
    values = [
        f"{both.loc[side, 'mean']:.2f}% ({recall.capitalize()} {both.loc[side, recall]:.1f}%)" for side in (True, False)
    ]
    seen = "sees it" if choice.setting.adapted else "does without"
    return f" With the adapted cosine it is {values[0]}, without it {values[1]}: so the second stage {seen}."


# ---- against the others


def tests_figure(tests: pd.DataFrame, k: int, name: str, ours: str) -> Drawing:
    """A ranker minus other methods (see `lib.assistant.context_scores.compare_by_kind`), on all queries and by kind.

    Args:
        name: file name of the figure.
        ours: the ranker.
    """
    rows = tests.assign(
        settled=settled(tests),
        comparison=[f"{ranker_name(row.other)}, {row.group} (n = {row.n})" for row in tests.itertuples()],
    )
    unit = f"points of Recall@{k}: {ranker_name(ours)} minus the method named, 95% intervals"
    return forest(rows, name, f"{ranker_name(ours)}, settled: {_settled_rows(rows)}", unit)


def _settled_rows(tests: pd.DataFrame) -> str:
    """How many rows are settled against each method, above it and below it."""
    said = []
    for other, part in tests.groupby("other", sort=False):
        above, below = ((part["settled"] & (sign * part["difference"] > 0)).sum() for sign in (1, -1))
        ends = f"{above} of {len(part)} rows above {ranker_name(str(other))}"
        said.append(ends + (f", {below} below" if below else ""))
    return "; ".join(said)


def gain_finding(tests: pd.DataFrame, k: int) -> str:
    """What the second stage adds to LambdaMART; without a full stop."""
    over = tests[(tests["other"] == "lambdamart") & (tests["group"] == "all")]
    words = "settled" if settled(over).item() else "not settled"
    return (
        f"{label(OURS)} finds {over['a'].item():.1f}% at K = {k}, LambdaMART {over['b'].item():.1f}%: a difference of "
        f"{_change(over.iloc[0])} points ({words})"
    )


def where_it_gains(tests: pd.DataFrame, k: int) -> str:
    """For which kinds of query the gain over LambdaMART is settled, and for which that over semantic search is not."""
    kinds = tests[(tests["other"] == "lambdamart") & (tests["group"] != "all")]
    less = kinds.loc[settled(kinds) & (kinds["difference"] < 0), "group"].tolist()
    return (
        f"{gain_finding(tests, k)}; by kind: {_changes(kinds)}. {_settled_gains(kinds)} "
        + (f"It finds less for {listed(less)} queries. " if less else "")
        + _not_over_search(tests)
    ).strip()


def _changes(kinds: pd.DataFrame) -> str:
    """Each kind with its difference."""
    return ", ".join(f"{row['group']} {_change(row)}" for _, row in kinds.iterrows())


def _settled_gains(kinds: pd.DataFrame) -> str:
    """For which kinds a gain is settled."""
    more = kinds.loc[settled(kinds) & (kinds["difference"] > 0), "group"].tolist()
    return f"Settled is a gain for {listed(more)} queries." if more else "A gain is settled for no kind alone."


def _not_over_search(tests: pd.DataFrame) -> str:
    over = tests[tests["other"] == "semantic"]
    over = over[~settled(over)]
    rows = [f"{row['group']} queries ({_change(row)})" for _, row in over.iterrows()]
    return f"Over semantic search its gain is not settled for {' and '.join(rows)}." if rows else ""


def variant_tests(scored: ContextScores) -> pd.DataFrame:
    """The two stages that see a fine-tuned encoder's cosine, cross-fitted, against search and LambdaMART (see
    `lib.assistant.context_scores.compare_by_kind`); empty where there are none."""
    from lib.assistant.context_scores import compare_by_kind

    others = ("semantic", "finetuned", "lambdamart")
    return compare_by_kind(scored, TWO_CROSS_FITTED, others) if TWO_CROSS_FITTED in scored.scores else pd.DataFrame()


def variant_figures(tests: pd.DataFrame, k: int) -> list[Drawing]:
    """The figure of `variant_tests`; none where they are empty."""
    return [] if tests.empty else [tests_figure(tests, k, "two_stages_cross_fitted_tests", TWO_CROSS_FITTED)]


def variant_in_words(tests: pd.DataFrame, k: int, published: float) -> str:
    """Where those two stages find more than semantic search, and what LambdaMART-RRF finds in the paper; empty where
    there are none.

    Args:
        tests: from `variant_tests`.
        published: recall of LambdaMART-RRF at the cutoff, in percent; NaN where none is.
    """
    if tests.empty:
        return ""
    over = tests[tests["other"] == "semantic"]
    whole, kinds = over[over["group"] == "all"].iloc[0], over[over["group"] != "all"]
    theirs = f"; the paper's LambdaMART-RRF finds {published:.1f}% in its own world" if published == published else ""
    return (
        f"{label(TWO_CROSS_FITTED).capitalize()} find {whole['a']:.1f}% at K = {k}{theirs}. Beside semantic search "
        f"that is, by kind: {_changes(kinds)} points. {_settled_gains(kinds)}"
    )


# ---- needs that no training query asks about


WITH_AND_WITHOUT = (("cot_distilled", "semantic"), ("finetuned_cot", "finetuned"))  # a chain of thought


def needs_table(unseen: UnseenNeeds, names: Mapping[str, str], folds: int) -> Table:
    """Methods on all evaluation queries, each by models that no training query told of its need.

    Args:
        unseen: of all needs.
        names: of the methods.
        folds: of needs.
    """
    at_k = unseen.summary[(unseen.summary["metric"] == "recall") & (unseen.summary["k"] == unseen.k)]
    at_k = at_k.set_index(["method", "kind"])
    rows = []
    for method in unseen.methods:
        learned = method in unseen.changes.index
        change = unseen.changes.loc[method] if learned else None
        rows.append(
            {
                "method": ranker_name(method, names),
                "n": int(at_k.loc[(method, "all"), "n"]),
                **{
                    kind: interval(*at_k.loc[(method, kind), ["value", "ci_low", "ci_high"]])
                    for kind in ("all", *unseen.kinds)
                    if (method, kind) in at_k.index
                },
                "trained with them": float("nan") if change is None else change["known"],
                "without − with": "–" if change is None else _change(change),
            }
        )
    return Table(
        pd.DataFrame(rows),
        f"Recall@{unseen.k} in percent with 95% intervals. {folds} folds of needs: every query is ranked by models "
        "that learned from training queries about other folds' needs alone; methods without training stay as they "
        "are. In Table 2 what learned from or with chains of thought did not meet the first fold's needs either. The "
        "difference is paired, in points. What is fused, and the second stage's setting, were chosen on all training "
        "queries.",
        decimals=1,
        best={"all": "max"},
        among="n",
    )


def on_other_needs(unseen: UnseenNeeds) -> str:
    """What the second stage adds on needs it never saw, and what it loses there."""
    test = compare(unseen.scores, [(OURS, "lambdamart")], "recall", unseen.k, unseen.resampling)
    change = unseen.changes.loc[OURS]
    ours, theirs = (unseen.scores[method, "recall", unseen.k].mean() for method in (OURS, "lambdamart"))
    return (
        f"On needs it never saw {label(OURS)} finds {ours:.1f}% at K = {unseen.k}, LambdaMART {theirs:.1f}%: a "
        f"difference of {_change(test.iloc[0])} points ({'settled' if settled(test).item() else 'not settled'}). "
        f"Trained with them it finds {change['known']:.1f}%; not having seen them makes a difference of "
        f"{_change(change)} points.{_beside_encoders(unseen)}"
    )


def _beside_encoders(unseen: UnseenNeeds) -> str:
    """The second stage beside what sees an encoder that was trained without the needs, too; Holm over these."""
    there = [method for method in (*TEXT_TRAINED, *SEEING) if method in unseen.methods]
    if not there:
        return ""
    tests = compare(unseen.scores, [(OURS, method) for method in there], "recall", unseen.k, unseen.resampling)
    each = "; ".join(
        f"{ranker_name(row['b'])} {unseen.scores[row['b'], 'recall', unseen.k].mean():.1f}% ({_change(row)} points, "
        f"{'settled' if sure else 'not settled'})"
        for (_, row), sure in zip(tests.iterrows(), settled(tests), strict=True)
    )
    return f" What sees an encoder trained without them, and the gain of {label(OURS)} on it: {each}."


def what_chains_add(unseen: UnseenNeeds) -> str:
    """What the distilled writer's chains of thought add to search on needs that neither it nor an encoder met; Holm
    over both."""
    pairs = [pair for pair in WITH_AND_WITHOUT if set(pair) <= set(unseen.methods)]
    if not pairs:
        return (
            "Writers of chains of thought were not trained without folds of needs here: the kept rankings are of "
            "another world, and the profile does not say `retrain_writers`."
        )
    tests = compare(unseen.scores, pairs, "recall", unseen.k, unseen.resampling)
    each = "; ".join(
        f"{label(row['a'])} against {label(row['b'])} {_change(row)} points ({'settled' if sure else 'not settled'})"
        for (_, row), sure in zip(tests.iterrows(), settled(tests), strict=True)
    )
    return (
        f"Chains of thought by a writer that did not meet the need either: {each}. An encoder fine-tuned with them "
        "learns from fewer queries, since a writer must not write for those that it learned from."
    )


def what_trust_costs(rankers: RankerScores, unseen: UnseenNeeds) -> str:
    """What cross-fitting by need changes for a ranker that sees a fine-tuned encoder, on needs that training knows and
    on new ones; a sentence that it was not tried where there are no such rankings."""
    if CROSS_FITTED not in unseen.methods:
        return (
            "Rankers that see a fine-tuned encoder were not asked about new needs here: the kept cosines are of "
            "another world, and the profile does not say `retrain_encoders`."
        )
    pair = [(CROSS_FITTED, WITH_FINETUNED)]
    known, fresh = (
        compare(each.scores, pair, "recall", each.k, each.resampling).iloc[[0]] for each in (rankers, unseen)
    )
    return (
        f"Cross-fitting the encoder's cosine by need changes LambdaMART by {_change(known.iloc[0])} points where "
        f"training knows the need ({_in_words(known.iloc[0])}), by {_change(fresh.iloc[0])} where it does not "
        f"({_in_words(fresh.iloc[0])})."
    )


# ---- what the adapted cosine adds


def adds_table(gains: pd.DataFrame, k: int) -> Table:
    """`lib.assistant.adapted_cosine.what_it_adds` for readers."""
    return Table(
        gains[["queries", "n", "without", "with"]].assign(difference=[_change(row) for _, row in gains.iterrows()]),
        f"Recall@{k} in percent of our two stages without and with the adapted cosine, each in its best setting on "
        "training queries; differences in points with 95% intervals (two-way cluster-robust). In two rows the "
        "adapted cosine ranks by itself, beside the pretrained encoder's. Needs unseen: five folds, and neither a map "
        "nor a ranker learned from the query's need. Shuffled: dealt anew among each query's candidates, in training "
        "as in evaluation."
        + (
            " An encoder's cosine, cross-fitted, stands in the adapted one's place in the rows that name it."
            if gains["queries"].isin(OF_ENCODERS).any()
            else ""
        ),
        decimals=1,
        text_columns=["queries"],
    )


def adds_in_words(gains: pd.DataFrame) -> str:
    """What the cosine adds where needs are known and where not, and what a shuffled one adds."""
    rows = gains.set_index("queries")
    known, unseen, shuffled = (rows.loc[name] for name in ROWS[1:4])
    return (
        f"With the adapted cosine two stages find {known['with']:.1f}%, without it {known['without']:.1f}%: "
        f"{_change(known)} points ({_in_words(known)}). On needs that nothing learned from they find "
        f"{unseen['with']:.1f}%, without it {unseen['without']:.1f}%: {_change(unseen)} points ({_in_words(unseen)}). "
        f"Shuffled, the cosine makes {_change(shuffled)} points: {_if_shuffled(shuffled)}{_by_encoders(rows)}"
    )


def _if_shuffled(shuffled: pd.Series) -> str:
    return (
        "**it must not, so the gain above is an artefact in part**."
        if shuffled["ci_low"] > 0
        else "no gain that is settled, as it must be."
    )


def _by_encoders(rows: pd.DataFrame) -> str:
    """The same of the cosine of fine-tuned encoders; empty where there is none.

    Args:
        rows: gains by `queries`.
    """
    if not set(OF_ENCODERS) <= set(rows.index):
        return ""
    known, unseen, shuffled = (rows.loc[name] for name in OF_ENCODERS)
    return (
        f" With an encoder's cosine in its place they find {known['with']:.1f}%, {_change(known)} points more than "
        f"without any ({_in_words(known)}); on needs that nothing learned from {unseen['with']:.1f}%, "
        f"{_change(unseen)} points ({_in_words(unseen)}). Shuffled, that cosine makes {_change(shuffled)} points: "
        f"{_if_shuffled(shuffled)}"
    )


def _in_words(row: pd.Series) -> str:
    if not settled(row.to_frame().T).item():
        return "not settled"
    return "a settled gain" if row["difference"] > 0 else "a settled loss"


def finding(tests: pd.DataFrame, unseen: UnseenNeeds) -> str:
    """What our ranker comes to; without a full stop."""
    found = unseen.scores[OURS, "recall", unseen.k].mean()
    text = f"{gain_finding(tests, unseen.k)}; on needs that training never showed it finds {found:.1f}%"
    if "finetuned" not in unseen.methods:
        return text
    known, fresh = (frame["finetuned", "recall", unseen.k].mean() for frame in (unseen.known, unseen.scores))
    return f"{text}, {label('finetuned')} {fresh:.1f}% (with them {known:.1f}%)"
