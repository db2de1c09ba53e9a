"""Notebook 12: what a point of quality costs the assistant, in seconds, tokens and money."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pandas as pd

from lib.assistant.pages.planner import SHORT
from lib.assistant.planner import SETTINGS
from lib.assistant.tool_retrieval import context_words, with_words
from lib.evaluation.prices import REQUESTS, Price, cost_columns, with_costs
from lib.workbook.display import Drawing, Table, interval
from lib.workbook.methods import colour, label, marker
from lib.workbook.pareto import DRAWN, pareto_drawing

K = 3
CONTEXT, TOOLS, PLANS, PROMPTS = "context", "tools", "plans", "prompts"
ROWS = {
    CONTEXT: f"relevant context found, %\n(Recall@{K}, 95% interval)",
    TOOLS: f"right tools found, %\n(Recall@{K}, 95% interval)",
    PLANS: "right plans, %\n(AST accuracy, 95% interval)",
    PROMPTS: "right plans of shorter and\nlonger prompts, % (95% interval)",
}
QUESTIONS = {CONTEXT: "context", TOOLS: "tools", PLANS: "plans", PROMPTS: "compressed context"}
POINT = ["row", "condition", "name", "value", "ci_low", "ci_high", "n", "seconds", "tokens_in", "tokens_out"]
# Whose time and tokens of context search stand for a tool search of the same kind, and which method's context is read.
SEARCHES = {"bm25t": "bm25t", "semantic": "semantic", "rrf": "rrf_text", "lambdamart": "lambdamart"}
CONTEXTS = {"query_only": None, "query_plus_context": "lambdamart_rrf", "query_plus_semantic_context": "semantic"}
SAID = {
    "query_only": "query alone",
    "query_plus_context": "with context",
    "query_plus_semantic_context": "with semantic context",
}
SEARCHED = {"bm25t": "BM25T", "semantic": "semantic search", "rrf": "RRF", "lambdamart": "ranker learned from plans"}
# Conditions whose tools or items the labels gave: what they find, no request can pay for.
LABELLED = ("upper_bound", "context_tuned_upper_bound", "items_", "titles_")
VARIED = ("items_", "titles_", "tools_")  # how the names of shorter and longer prompts begin
MARKERS = {"bm25t": "s", "semantic": "o", "rrf": "h", "lambdamart": "D"}


def context_points(retrieval: pd.DataFrame, cost: pd.DataFrame, k: int = K) -> pd.DataFrame:
    """Methods of context retrieval, all on the same queries.

    Args:
        retrieval, cost: the report's `context_retrieval.csv` and `context_cost.csv`.

    Returns:
        `POINT`; seconds: the median of a query.
    """
    rows = retrieval[(retrieval["kind"] == "all") & (retrieval["metric"] == "recall") & (retrieval["k"] == k)]
    by_sample = {sample: part.set_index("method") for sample, part in rows.groupby("sample")}
    of_all = by_sample["all"]
    timed = cost[cost["method"].isin(set().union(*(part.index for part in by_sample.values())))]
    whole = set(timed["method"]) <= set(of_all.index)
    found = of_all if whole else by_sample["cot"]
    timed = timed[timed["method"].isin(found.index)]
    table = timed.assign(row=CONTEXT, condition=timed["method"], name=timed["method"].map(label))
    table = table.assign(seconds=table["p50_ms"] / 1000).join(found[["value", "ci_low", "ci_high", "n"]], on="method")
    return table[POINT].reset_index(drop=True)


def tool_points(
    tools: pd.DataFrame, cost: pd.DataFrame, tokens: Mapping[str, float], reads: Mapping[str, str | None] = CONTEXTS
) -> pd.DataFrame:
    """Ways of finding the right tools, with their cost put together from what was timed: the search for the context
    that the query is asked with, and a search of its own kind for the tools (a persona's items and the toolbox are
    both some dozens of texts).

    Args:
        tools, cost: the report's `tool_retrieval.csv` and `context_cost.csv`.
        tokens: {setting: tokens that an encoder reads of the query with its context, mean}; see `searched_tokens`.
        reads: {setting: the method whose context it reads}.

    Returns:
        `POINT`.
    """
    times = cost.set_index("method")
    rows = tools[(tools["target"] == "api") & (tools["k"] == K)].set_index(["setting", "retriever"])
    made = []
    for (setting, retriever), found in rows.iterrows():
        if setting not in reads or retriever not in SEARCHES or setting not in tokens:
            continue
        searched = times.loc[SEARCHES[retriever]]
        context = times.loc[reads[setting]] if reads[setting] else None
        before, read = (0.0, 0.0) if context is None else (context["p50_ms"], context["tokens_in"])
        read += tokens[setting] if searched["tokens_in"] else 0.0
        name = f"{SEARCHED[retriever]}, {SAID[setting]}"
        made.append((TOOLS, f"{setting}/{retriever}", name, found["recall"], found["ci_low"], found["ci_high"],
                     found["n"], (searched["p50_ms"] + before) / 1000, read, 0.0))  # fmt: skip
    return pd.DataFrame(made, columns=POINT)


def searched_texts(
    queries: pd.DataFrame, items: pd.DataFrame, context: Mapping[str, pd.DataFrame], wording: str, n_items: int
) -> dict[str, list[str]]:
    """What is searched with for each evaluation query, alone and with retrieved context, as notebook 06 words it.

    Args:
        queries, items: of notebook 01.
        context: {setting: columns query, item, rank}.
        wording, n_items: as chosen by notebook 06.
    """
    asked = queries[queries["split"] == "evaluation"]
    texts = {"query_only": asked["text"].tolist()}
    for setting, run in context.items():
        found = run[["query", "item", "rank"]].merge(items[["item", "app", "title", "text"]], on="item")
        texts[setting] = with_words(asked, context_words(found, wording, n_items))
    return texts


def searched_tokens(texts: Mapping[str, list[str]], count: Callable[[str], int]) -> dict[str, float]:
    """Mean tokens of what is searched with, by setting; `texts` of `searched_texts`, `count` with start and end tokens,
    which the encoder reads, too."""
    return {setting: sum(map(count, part)) / len(part) for setting, part in texts.items() if part}


def plan_points(planner: pd.DataFrame, variants: pd.DataFrame, asked: pd.DataFrame) -> pd.DataFrame:
    """The planner's settings, and notebook 07's shorter and longer prompts: more or fewer tools and items, and items as
    their titles alone. These are over fewer queries, so that they stand in a row of their own. Intervals are those of
    the two tables, over personas and needs.

    Args:
        planner, variants: the report's `planner.csv` and `planner_variants.csv`.
        asked: of `planned`.

    Returns:
        `POINT`; a variant's answers are taken to be as long as those of the context-tuned planner, and as slow for each
        token of the prompt.
    """
    right = planner[planner["metric"] == "ast_accuracy"].set_index("setting").join(asked, how="inner")
    of_settings = right.rename_axis("condition").reset_index()
    names = [
        f"{SHORT[name]} (labels given)" if name.startswith(LABELLED) else SHORT[name]
        for name in of_settings["condition"]
    ]
    of_settings = of_settings.assign(row=PLANS, name=names)
    swept = variants.dropna(subset=["tokens", "number"])
    usual = asked.loc["context_tuned_upper_bound"]
    of_variants = pd.DataFrame(
        {
            "row": PROMPTS,
            "condition": swept["variant"] + "_" + swept["number"].astype(int).astype(str),
            "name": [_variant(*row) for row in swept[["variant", "number"]].to_numpy()],
            "value": swept["ast_accuracy"],
            "ci_low": swept["ast_accuracy_low"],
            "ci_high": swept["ast_accuracy_high"],
            "n": swept["n"],
            "seconds": usual["seconds"] * swept["tokens"] / usual["tokens_in"],
            "tokens_in": swept["tokens"],
            "tokens_out": usual["tokens_out"],
        }
    )
    return pd.concat([of_settings[POINT], of_variants[POINT]], ignore_index=True)


def _variant(variant: str, count: float) -> str:
    many = "" if count == 1 else "s"
    said = {
        "items": f"item{many} and the right tool",
        "titles": f"title{many} of items and the right tool",
        "tools": f"retrieved tool{many} and context",
    }
    return f"{count:.0f} {said.get(variant, variant)}"


def planned(plans: pd.DataFrame, count: Callable[[str], int], seconds: Mapping[str, float]) -> pd.DataFrame:
    """What a plan costs by setting.

    Args:
        plans: notebook 07's, columns setting, prompt, text.
        count: tokens of a text by the planner's tokenizer.
        seconds: of one plan asked alone, by setting (see `seconds_a_plan`).

    Returns:
        index setting; columns tokens_in, tokens_out, seconds (NaN where none was timed).
    """
    lengths = plans.assign(tokens_in=plans["prompt"].map(count), tokens_out=plans["text"].map(count))
    table = lengths.groupby("setting")[["tokens_in", "tokens_out"]].mean().reindex(list(SETTINGS)).dropna()
    return table.assign(seconds=[seconds.get(setting, float("nan")) for setting in table.index])


def seconds_a_plan(plans: pd.DataFrame, model, max_new_tokens: int, each: int) -> dict[str, float]:
    """Mean seconds of a plan asked alone, over the first `each` of every setting, the first of all not counted.

    Args:
        plans: columns setting, prompt.
        model: a `lib.generation.local.LocalModel` without kept answers.
    """
    model.generate(plans["prompt"].head(1).tolist(), max_new_tokens=max_new_tokens)  # loads the model
    taken: dict[str, list[float]] = {}
    for row in plans.groupby("setting", sort=False).head(each).itertuples():
        model.generate([row.prompt], max_new_tokens=max_new_tokens)
        taken.setdefault(row.setting, []).append(model.costs[0].seconds)
    return {setting: sum(times) / len(times) for setting, times in taken.items()}


def priced(points: pd.DataFrame, price: Price) -> pd.DataFrame:
    """`lib.evaluation.prices.with_costs`, and group, colour and marker; what the labels gave is on no front."""
    return with_costs(points, price, points["condition"].str.startswith(LABELLED)).assign(
        group=lambda table: [_group(*one) for one in table[["condition", "name"]].to_numpy()],
        colour=lambda table: [_colour(name) for name in table["condition"]],
        marker=lambda table: [_marker(name) for name in table["condition"]],
    )


def _group(condition: str, name: str) -> str:
    if condition.startswith(VARIED):
        return "shorter and longer prompts"
    setting, _, retriever = condition.partition("/")
    return f"tools by {SEARCHED[retriever]}, {SAID[setting]}" if retriever else name


def _colour(condition: str) -> str:
    setting = condition.partition("/")[0]
    if condition.startswith(VARIED):
        return "#7a7a7a"
    return colour(setting)


def _marker(condition: str) -> str | tuple:
    setting, _, retriever = condition.partition("/")
    if condition.startswith(VARIED):
        return "."
    return MARKERS[retriever] if retriever else marker(setting)


def cost_drawing(points: pd.DataFrame, price: Price) -> Drawing:
    """Quality against seconds and money, a row of panels a question; tokens and shorter prompts are in the table."""
    drawn = points[points["row"] != PROMPTS]
    best = "; ".join(_best(part) for _, part in drawn.groupby("row", sort=False))
    alt = (
        f"Panels of quality against seconds and US dollars at {price.model}'s list price, a row of panels for "
        f"{', '.join(QUESTIONS[row] for row in drawn['row'].unique())}; the Pareto front as a line. {best}."
    )
    return pareto_drawing(drawn, "assistant_cost", cost_finding(points), ROWS, alt, DRAWN)


def _best(part: pd.DataFrame) -> str:
    payable = part[~part["condition"].str.startswith(LABELLED)]
    row = payable.loc[payable["value"].idxmax()]
    return f"Best of {QUESTIONS[row['row']]}: {row['name']} {row['value']:.0f}%, {row['tokens']:.0f} tokens"


def cost_finding(points: pd.DataFrame) -> str:
    """How little of what can be paid lies on a front, of what the figure draws."""
    payable = points[(points["row"] != PROMPTS) & ~points["condition"].str.startswith(LABELLED)]
    on = payable[payable["front_seconds"] | payable["front_dollars"]]
    languages = payable[(payable["row"] == CONTEXT) & (payable["tokens_out"] > 0)]
    number = payable["row"].value_counts()
    of = ", ".join(f"{number[row]} for {QUESTIONS[row]}" for row in QUESTIONS if row in number)
    said = f"{len(on)} of {len(payable)} methods ({of}) are best for their cost: none that costs no more finds as much"
    if languages.empty:
        return said
    among = int(languages.index.isin(on.index).sum())
    return f"{said}; of {len(languages)} that write chains of thought {among or 'none'}"


def cost_table(points: pd.DataFrame, prices: Mapping[str, Price]) -> Table:
    """All conditions with their costs, a column of money for each list price."""
    rows = points.sort_values(["row", "tokens", "seconds"], key=_order, kind="stable")
    frame = pd.DataFrame(
        {
            "question": rows["row"].map(QUESTIONS),
            "condition": rows["name"],
            "quality, %": [interval(*values) for values in rows[["value", "ci_low", "ci_high"]].to_numpy(float)],
            "n": rows["n"].astype(int),
        }
    ).join(cost_columns(rows, prices, decimals=1))
    caption = (
        f"Quality and what one request costs. Seconds: the median of a query (context), put together from the searches "
        f"that were timed (tools), mean of plans asked alone (plans; a variant's in proportion to its prompt). US "
        f"dollars: what the tokens of {REQUESTS:,} requests would cost at the model's list price (`data/prices.csv`), "
        "though another model read and wrote them. 95% intervals, over personas and needs."
    )
    return Table(frame.reset_index(drop=True), caption, text_columns=["condition"])


def _order(column: pd.Series) -> pd.Series:
    return column.map({row: i for i, row in enumerate(ROWS)}) if column.name == "row" else column


def cost_in_words(points: pd.DataFrame) -> str:
    """For each question: what lies on the front of tokens, from the cheapest to the best."""
    said = []
    for row, part in points.groupby("row", sort=False):
        front = part[part["front_tokens"]].sort_values(["tokens", "value"])
        steps = [f"{one.name} ({one.value:.0f}%, {one.tokens:,.0f})" for one in front.itertuples(index=False)]
        said.append(f"{QUESTIONS[row]}: {'; '.join(steps)}")
    return (
        f"On the front of quality and tokens (quality, tokens a request). {'. '.join(said)}. A front compares values: "
        "two neighbours on it need not differ significantly."
    )
