"""Answers of notebook 12's repairs that are kept with the project: more than a laptop writes while one waits.

Kept is what a model wrote, under the very prompt, grammar and settings that it was asked with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from lib.generation.local import LocalModel
from lib.workflows.ablation import STOPS
from lib.workflows.catalogue import Catalogue
from lib.workflows.grammars import flow_grammar
from lib.workflows.kept_flows import ABOUT, ANSWER, ENOUGH, keep, kept_by, read
from lib.workflows.repair_asking import HELD, Asking, Row, ask_all, second_prompts

REQUEST = ["test_set", "unit"]


def keep_answers(
    path: Path,
    prompts: pd.DataFrame,
    answers: pd.DataFrame,
    models: Mapping[str, LocalModel],
    catalogue: Catalogue,
    asking: Asking,
) -> None:
    """Add the answers to prompts to a file.

    Args:
        prompts: of `lib.workflows.repair_asking.all_first_prompts`.
        answers: of `lib.workflows.repair_asking.ask_all`.
        models: by name, as in `prompts`.
    """
    for name, part in prompts.groupby("model", sort=False):
        generator = str(name).split("-")[0]
        mine = answers[answers["model"] == generator].drop(columns="model")
        free = mine[mine["way"] == "free"].merge(part, on=REQUEST)
        again = second_prompts(free, free["text"].tolist(), generator, catalogue, asking)
        prompt_of = pd.concat([part.assign(way=way) for way in ("free", HELD)])
        prompt_of = pd.concat([prompt_of, again.assign(way="second")])[[*REQUEST, "way", "prompt"]]
        rows = mine.merge(prompt_of, on=[*REQUEST, "way"], validate="many_to_one")
        asked_as = {way: _asked_as(way, generator, catalogue, asking) for way in rows["way"].unique()}
        rows["grammar"] = rows["way"].map(asked_as)
        rows["condition"] = rows["test_set"] + " " + rows["way"]
        model = models[str(name)]
        keep(path, rows, str(name), model.fingerprint, model.dtype)


def kept_answers(
    path: Path, prompts: pd.DataFrame, models: Mapping[str, LocalModel], catalogue: Catalogue, asking: Asking
) -> pd.DataFrame:
    """The answers that were kept for prompts.

    A request is there whole or not at all: free and constrained. Where the answer to a second prompt is missing none
    are there: what is left would be valid flows.

    Args:
        prompts, models, catalogue, asking: as for `keep_answers`.

    Returns:
        what `lib.workflows.repair_asking.ask_all` returns, and dtype.
    """
    of_file, weights = read(path), {name: model.fingerprint for name, model in models.items()}
    parts = []
    for name, part in prompts.groupby("model", sort=False):
        generator = str(name).split("-")[0]
        asked_as = {way: _asked_as(way, generator, catalogue, asking) for way in ("free", HELD, "second")}

        def kept_as(way: str, asked: pd.DataFrame, asked_as=asked_as) -> pd.DataFrame:
            return kept_by(of_file, asked.assign(way=way, grammar=asked_as[way]), weights, REQUEST)

        free, held = kept_as("free", part), kept_as(HELD, part)
        free = free[_requests(free).isin(_requests(held))].reset_index(drop=True)
        asked = free.drop(columns=[*ANSWER, *ABOUT])
        again = second_prompts(asked, free["text"].tolist(), generator, catalogue, asking)
        second = kept_as("second", again)
        if len(second) < len(again):
            return pd.DataFrame(columns=["model", *REQUEST, "way", *ANSWER, "dtype"])
        found = pd.concat([free, held, second], ignore_index=True)
        parts.append(found[_requests(found).isin(_requests(free))].assign(model=generator))
    answers = pd.concat(parts, ignore_index=True)
    return answers[["model", *REQUEST, "way", *ANSWER, "dtype"]]


def kept_or_asked(
    path: Path,
    own: Path,
    write: Callable[[Sequence[Row], Mapping[str, pd.DataFrame]], pd.DataFrame],
    rows: Sequence[Row],
    order: Mapping[str, pd.DataFrame],
    models: Mapping[str, LocalModel],
    catalogue: Catalogue,
    asking: Asking,
    progress: bool = False,
) -> pd.DataFrame:
    """Answers of each row: all that are kept, if these are at least as many as it asks for and nearly all (`ENOUGH`) of
    those that were kept; else those asked now.

    Args:
        path: of the kept answers.
        own: a file to add answers to that are asked now.
        write: the first prompts of rows (`lib.workflows.repair_asking.all_first_prompts`).
        order: {test set: its flows in the order of asking}, column pair.

    Returns:
        what `lib.workflows.repair_asking.ask_all` returns; dtype where answers were kept.
    """
    of_file, parts, left = read(path), [], []
    generators = of_file["writer"].str.split("-").str[0]
    for row in rows:
        requests = order.get(row.test_set, pd.DataFrame(columns=["pair"]))
        requests = requests[requests["pair"].isin(of_file.loc[generators == row.generator, "unit"])]
        found = pd.DataFrame(columns=["way", "unit"])
        if len(requests):
            wide = row._replace(flows=len(requests))
            found = kept_answers(path, write([wide], {row.test_set: requests}), models, catalogue, asking)
        there = found.loc[found["way"] == "free", "unit"].nunique()
        if there >= max(ENOUGH * len(requests), row.flows):
            parts.append(found)
        else:
            left.append(row)
    prompts = write(left, order) if left else pd.DataFrame()
    if len(prompts):
        asked = ask_all(prompts, models, catalogue, asking, progress)
        keep_answers(own, prompts, asked, models, catalogue, asking)
        parts.append(asked)
    return pd.concat(parts, ignore_index=True)


def _requests(answers: pd.DataFrame) -> pd.Series:
    return pd.Series(list(zip(answers["test_set"], answers["unit"], strict=True)), answers.index, dtype=object)


def _asked_as(way: str, generator: str, catalogue: Catalogue, asking: Asking) -> str:
    """What, besides the prompt, decides an answer."""
    grammar = flow_grammar(catalogue, stop=STOPS[generator]) if way == HELD else ""
    return f"{way} {asking.max_new_tokens} {grammar} 0"
