"""Tables, figure and sentences of notebook 11: a benchmark that others made."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import matplotlib.pyplot as plt
import pandas as pd

from lib.evaluation.claim_records import Claim
from lib.evaluation.inference import Resampling
from lib.evaluation.intervals import mean_interval
from lib.workbook.display import Drawing, Table, interval
from lib.workbook.forest import forest
from lib.workbook.markup import plain
from lib.workbook.methods import colour, label
from lib.workflows.flow_bench import ASKED, CUTOFFS, READINGS, USER_TASK, FlowBench
from lib.workflows.flow_bench_flows import MEASURES
from lib.workflows.flow_bench_shots import SHOTS
from lib.workflows.language import parse, print_flow
from lib.workflows.pages.common import error_bars, intervals

TEXTS = {"id": "id", "description": "description", "both": "id and description"}
UPDATES = {
    "": "a new flow",
    "add": "an edit that adds",
    "replace": "an edit that replaces",
    "delete": "an edit that deletes",
}
SETTING = ["texts", "asked", "reading"]
VALUE = ["value", "ci_low", "ci_high"]
FIGURE = "flow_bench_recall"
ALT = (
    f"Recall of Flow-Bench's APIs at {' and '.join(map(str, CUTOFFS))} by what is searched for, what is read of an API "
    "and what counts as needed, with 95% intervals and the published recall as a dashed line."
)
MARKERS = dict(zip(READINGS, "osD", strict=True))


def what_was_read(bench: FlowBench) -> str:
    """How many flows there are, and how many of them our language says without loss."""
    catalogue, pairs = bench
    texts = [*pairs["dsl"], *filter(None, pairs["prior"])]
    used = {name for apis in pairs["apis"] for name in apis} - {USER_TASK.name}
    known, edited = sum(name in catalogue for name in used), len(texts) - len(pairs)
    return (
        f"{unchanged(texts)} of {len(texts)} flows ({len(pairs)} right ones, {edited} to edit) are the same text after "
        f"they are parsed and printed. The right ones call {len(used)} different APIs, of which {known} are among the "
        f"{len(catalogue) - 1} of the catalogue."
    )


def requests_table(pairs: pd.DataFrame) -> Table:
    """What is asked for, and what the right flows have."""
    has = {"a loop": r"(?m)^ *for \(", "a condition": r"(?m)^ *if \(", "a task for a person": rf"\b{USER_TASK.name}\("}
    rows = [
        {
            "asked for": said,
            "requests": len(group),
            "calls a flow": group["apis"].map(len).mean(),
            **{f"with {what}": int(group["dsl"].str.contains(sign).sum()) for what, sign in has.items()},
        }
        for update, said in UPDATES.items()
        if len(group := pairs[pairs["update"] == update])
    ]
    caption = f"Flow-Bench's {len(pairs)} requests, and how many of the right flows have a part."
    return Table(pd.DataFrame(rows), caption, decimals=1)


def recall_drawing(recall: pd.DataFrame, published: pd.DataFrame) -> Drawing:
    """Recall by setting, a panel a cutoff, with the published recall of the same encoder as a line."""
    figure, axes = plt.subplots(1, len(CUTOFFS), figsize=(9.5, 4.6), sharey=True)
    rows = list(itertools.product(ASKED, TEXTS))
    for axis, k in zip(axes, CUTOFFS, strict=True):
        for shift, (reading, marker) in zip((-0.2, 0, 0.2), MARKERS.items(), strict=True):
            drawn = recall[(recall["k"] == k) & (recall["reading"] == reading)]
            places = [rows.index(row) + shift for row in zip(drawn["asked"], drawn["texts"], strict=True)]
            style = {"fmt": marker, "color": colour("pretrained"), "fillstyle": "none" if reading == "flow" else "full"}
            axis.errorbar(drawn["value"], places, xerr=error_bars(drawn, VALUE), label=READINGS[reading], **style)
        axis.axvline(_printed(published)[k], color=colour("published"), linestyle="--", label=label("published"))
        names = [f"{ASKED[asked]}; {TEXTS[text]}" for asked, text in rows]
        axis.set(xlabel=f"Recall@{k}, %", xlim=(40, 101), yticks=range(len(rows)), yticklabels=names)
    axes[0].set_ylabel("searched for; read of an API")
    axes[0].invert_yaxis()
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=2)
    return Drawing(figure, FIGURE, nearest_sentence(recall, published), ALT, recall)


def _printed(published: pd.DataFrame) -> dict[int, float]:
    """The published recall of the encoder as it was, by cutoff."""
    rows = published[published["method"] == "pretrained"]
    return dict(zip(rows["k"], rows["value"], strict=True))


def nearest(recall: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """The rows, one a cutoff, of the setting whose recall is nearest to the published one at all cutoffs."""
    rows = recall.assign(published=recall["k"].map(_printed(published)))
    away = (rows["value"] - rows["published"]).abs()
    best = away.groupby([rows[name] for name in SETTING], sort=False).max().idxmin()
    return rows[(rows[SETTING] == list(best)).all(axis=1)].sort_values("k")


def nearest_sentence(recall: pd.DataFrame, published: pd.DataFrame) -> str:
    """How near our recall comes to the published one, and under which setting."""
    rows = nearest(recall, published)
    text, asked, reading = rows.iloc[0][SETTING]
    parts = [f"{row.value:.1f}% at {row.k} (published {row.published:.1f}%)" for row in rows.itertuples()]
    return (
        f"Nearest to the published recall: {' and '.join(parts)}; searched for {ASKED[asked]} in {TEXTS[text]}; "
        f"counted as needed: {READINGS[reading]}"
    )


def given_words(bench: FlowBench, recall: pd.DataFrame, published: pd.DataFrame) -> str:
    """What the nearest setting counts as found without a search; empty where it counts nothing so."""
    if nearest(recall, published).iloc[0]["reading"] != "given":
        return ""
    unasked = int((bench.pairs["new_apis"].map(len) == 0).sum())
    return f" Of {len(bench.pairs)} requests {unasked} need only APIs of the flow to edit, so no search."


def finding(bench: FlowBench, recall: pd.DataFrame, published: pd.DataFrame) -> str:
    """For the top of the page and the index."""
    rows = nearest(recall, published)
    inside = [row.ci_low <= row.published <= row.ci_high for row in rows.itertuples()]
    told = "inside" if all(inside) else "outside" if not any(inside) else "only in part inside"
    last = rows.iloc[-1]
    low_high = interval(last["value"], last["ci_low"], last["ci_high"])
    return (
        f"{unchanged(bench.pairs['dsl'])} of Flow-Bench's {len(bench.pairs)} flows can be written in our language, "
        f"loops included. {nearest_sentence(recall, published)}.{given_words(bench, recall, published)} The published "
        f"recall is {told} our 95% intervals, such as {low_high} at {last['k']}. Our setting was chosen among "
        f"{len(recall.drop_duplicates(SETTING))} settings by that nearness, and is no test."
    )


def prior_words(prior: pd.DataFrame) -> str:
    """How near the flow to edit is to the right flow, as it stands.

    Args:
        prior: of `lib.workflows.flow_bench_shots.prior_scores`.
    """
    low, high = mean_interval(prior["value"].to_numpy(), Resampling([prior["family"]]))
    shown = interval(prior["value"].mean(), float(low), float(high), 1)
    return f"For {len(prior)} edits the flow to edit, copied as it is, has a similarity of {shown} to the right one."


def unchanged(texts: Iterable[str]) -> int:
    """How many flows are the same text after they are parsed and printed."""
    return sum(print_flow(parse(text)) == text for text in texts)


# ---------------------------------------------------------------- few-shots

METRICS = {"jaccard": f"APIs of {SHOTS} few-shots", "copied": "the first one copied"}


def _told(difference: pd.Series) -> str:
    """A difference with its interval, and whether it is settled among all comparisons of few-shots here."""
    low_high = interval(difference["difference"], difference["ci_low"], difference["ci_high"], 1)
    return f"{low_high} points, {'settled' if difference['settled'] else 'not settled'}"


def tuned_words(tests: pd.DataFrame, pairs: float, seconds: float) -> str:
    """Does few-shot search lose by the domain that TST was tuned on?

    Args:
        tests: of `lib.workflows.flow_bench_shots.shot_differences`.
        pairs, seconds: of the tuning here, of a fold and in all.
    """
    rows = tests[tests["metric"] == "jaccard"].set_index(["a", "b"])
    wanted = [("tst", "pretrained"), ("tst_anew", "pretrained"), ("tst_anew", "tst")]
    if not all(pair in rows.index for pair in wanted):
        return "TST was not tuned anew here."
    shipped, anew, between = (rows.loc[[pair]].iloc[0] for pair in wanted)
    if between["settled"] and between["difference"] > 0:
        verdict = "Tuned on this domain it is better: the domain explains at least a part of the difference."
    elif anew["settled"] and anew["difference"] < 0:
        verdict = "Tuned on this domain it still loses: the domain alone does not explain the difference."
    else:
        verdict = "Whether the domain explains the difference stays open."
    return (
        f"Against the pretrained encoder the shipped TST changes the overlap of APIs (Jaccard) by {_told(shipped)}; "
        "tuned anew on "
        f"{pairs:,.0f} pairs of Flow-Bench, cross-fitted, in {seconds:.0f} seconds, {_told(anew)}; tuned anew against "
        f"shipped {_told(between)} (n = {anew['n']}; Holm over all {len(tests)} comparisons of few-shots). {verdict}"
    )


def two_families(transfer: pd.DataFrame, claims: Sequence[Claim], tests: pd.DataFrame) -> str:
    """Claims whose difference is settled among the claims and not among the comparisons of few-shots, or the other way
    round; empty where both agree.

    Args:
        transfer: of `lib.evaluation.transfer.side_by_side`.
        claims: those that were asked.
        tests: of `lib.workflows.flow_bench_shots.shot_differences`.
    """
    rows = transfer.drop_duplicates("claim").set_index("claim")
    compared, said = tests.set_index(["metric", "a", "b"])["settled"], []
    for claim in claims:
        pair = claim.metric, claim.a[0], getattr(claim, "b", None)
        if claim.claim not in rows.index or pair not in compared.index:
            continue
        verdict, number_of = rows.loc[claim.claim, ["there_overall", "there_tests"]]
        if (verdict in ("reproduced", "contradicted")) != compared[pair]:
            other = "settled" if compared[pair] else "not settled"
            said.append(
                f"“{plain(claim.statement.rstrip('.'))}” is {verdict} on Flow-Bench among {number_of} claims, and "
                f"{other} among the {len(tests)} comparisons of few-shots: Holm's adjustment asks more of more tests."
            )
    return " ".join(said)


def shots_forest(tests: pd.DataFrame) -> Drawing:
    """Differences of selectors, a panel a measure."""
    rows = tests.assign(
        comparison=[f"{label(a)} − {label(b)}" for a, b in zip(tests["a"], tests["b"], strict=True)],
        panel=tests["metric"].map(METRICS),
    )
    won = rows.loc[rows["settled"], "comparison"].nunique()
    finding = f"{won} of {rows['comparison'].nunique()} comparisons of few-shots are settled on Flow-Bench"
    return forest(rows, "flow_bench_shots", finding, "points", panel="panel")


# ---------------------------------------------------------------- flows written


WRITERS = {"in_context": "in-context", "instruct": "instruct"}
DEFINITIONS = {"sfd": "+ SFD", "fd": "+ FD", "none": "alone"}


def condition_label(name: str) -> str:
    """Who wrote, for readers."""
    if name == "copy_prior":
        return "copied: flow to edit, else nearest"
    if name.startswith("copy_"):
        return f"copied: {label(name.removeprefix('copy_'))}"
    writer, selector, definitions, decoding = name.split(", ")
    under = "" if decoding == "free" else f", {decoding}"
    return f"{WRITERS[writer]}: {label(selector)} {DEFINITIONS[definitions]}{under}"


def kept_words(answered: pd.DataFrame, asked: int, there: int, in_this_run: bool) -> str:
    """Who wrote the instruct model's flows, and where; or that there are none.

    Args:
        answered: columns writer and seconds, of `lib.workflows.kept_flows.kept`.
        asked: prompts in all.
        there: prompts that have a kept answer.
        in_this_run: whether the model was asked now.
    """
    if answered.empty:
        return (
            f"An instruct model's rows are left out: {there} of {asked} prompts have a kept answer, and no "
            "`instruct_generator` is named. The rest changed since, and those that a change did not touch are no fair "
            "sample."
        )
    names = ", ".join(sorted(set(answered["writer"])))
    if in_this_run:
        return f"The instruct model is {plain(names)}, asked in this run."
    seconds = answered["seconds"].median()
    return (
        f"The instruct model is {plain(names)}. Its {len(answered)} flows were written once on a processor, in "
        f"{seconds:.0f} seconds each in the median, and are kept with the project under the prompts that they answer."
    )


def flows_table(values: pd.DataFrame) -> Table:
    """The metrics of what was written, and of the floors.

    Args:
        values: of `lib.workflows.flow_bench_flows.values`.
    """
    shown = values.assign(shown=intervals(values, VALUE, 1))
    wide = shown.pivot(index="condition", columns="metric", values="shown").loc[
        list(dict.fromkeys(values["condition"]))
    ]
    frame = pd.DataFrame({"flows": list(map(condition_label, wide.index))})
    for metric, said in MEASURES.items():
        frame[said] = wide[metric].to_numpy()
    n = int(values["n"].max())
    parsed = values.loc[values["metric"] == "made_up_names", "n"]
    caption = (
        f"Flows for {n} of Flow-Bench's requests, by who writes, who selected the few-shots and which definitions the "
        "prompt has, and copied ones; 95% intervals. Executed right: on mocked connectors a flow does what the right "
        "one does, all arguments counted. Made-up names and keys are counted over the flows that parse alone, "
        f"{parsed.min()} to {parsed.max()}. Grammar: that of the language with the benchmark's catalogue."
    )
    return Table(frame, caption)


def flows_forest(tests: pd.DataFrame) -> Drawing:
    """Differences in similarity."""
    rows = tests.assign(
        comparison=[f"{condition_label(a)} − {condition_label(b)}" for a, b in zip(tests["a"], tests["b"], strict=True)]
    )
    return forest(rows, "flow_bench_flows", flows_finding(tests), "points of similarity")


def flows_finding(tests: pd.DataFrame) -> str:
    """Whether writing beats copying."""
    copied = tests[tests["b"].str.startswith("copy_")]
    better = int((copied["settled"] & (copied["difference"] > 0)).sum())
    worse = int((copied["settled"] & (copied["difference"] < 0)).sum())
    return (
        f"Written flows beat copied ones in {better} of {len(copied)} comparisons and lose in {worse}; the rest is open"
    )


def flow_examples(scores: pd.DataFrame, pairs: pd.DataFrame, condition: str) -> Table:
    """What was written worst and best, beside the right flow: of equal ones the shortest right flow."""
    asked = pairs.set_index("pair")
    mine = scores[scores["condition"] == condition]
    mine = mine.assign(length=mine["unit"].map(asked["dsl"]).str.len()).sort_values("length", kind="stable")
    chosen = mine.loc[list(dict.fromkeys([mine["similarity"].idxmin(), mine["similarity"].idxmax()]))]
    rows = [
        {
            "request": plain(asked.loc[row.unit, "request"].strip()),
            "right flow": asked.loc[row.unit, "dsl"],
            "written": row.text,
            "similarity": f"{row.similarity:.2f}",
        }
        for row in chosen.itertuples()
    ]
    caption = (
        f"Written by {condition_label(condition)}: a flow of the lowest and one of the highest similarity. Similarity "
        "compares the APIs alone, not loops or arguments."
    )
    return Table(pd.DataFrame(rows), caption, code_columns=("right flow", "written"))
