"""Answers of notebook 12's repairs that are kept with the project: more than a laptop writes while one waits.

Kept is what a model wrote, under the very prompt, grammar and settings that it was asked with. Seconds are not taken
from there: `lib.workflows.repair_rates` measures them where the report is made.
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
from lib.workflows.repair_asking import Asking, Row, ask_all, second_prompts
from lib.workflows.repair_ways import HELD

REQUEST = ["test_set", "unit"]
COUNTED = ("free", "sample")


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
        prompt_of = pd.concat([part.assign(way=way) for way in ("free", HELD, "sample")])
        prompt_of = pd.concat([prompt_of, again.assign(way="second")])[[*REQUEST, "way", "prompt"]]
        rows = mine.merge(prompt_of, on=[*REQUEST, "way"], validate="many_to_one")
        asked_as = {way: _asked_as(way, generator, catalogue, asking) for way in rows["way"].unique()}
        rows["grammar"] = [
            f"{asked_as[way]} {draw}" for way, draw in rows[["way", "draw"]].itertuples(index=False, name=None)
        ]
        rows["condition"] = [f"{one.test_set} {one.way} {one.draw}" for one in rows.itertuples()]
        model = models[str(name)]
        keep(path, rows, str(name), model.fingerprint, model.dtype)


def kept_answers(
    path: Path, prompts: pd.DataFrame, models: Mapping[str, LocalModel], catalogue: Catalogue, asking: Asking
) -> pd.DataFrame:
    """The answers that were kept for prompts.

    A request is there whole or not at all: free and constrained; its samples are there all or none. Where the answer
    to a second prompt is missing none are there: what is left would be valid flows.

    Args:
        prompts, models, catalogue, asking: as for `keep_answers`.

    Returns:
        what `lib.workflows.repair_asking.ask_all` returns, and dtype.
    """
    weights = {name: model.fingerprint for name, model in models.items()}
    parts = []
    for name, part in prompts.groupby("model", sort=False):
        generator = str(name).split("-")[0]
        single = {way: _asked_as(way, generator, catalogue, asking) + " 0" for way in ("free", HELD, "second")}
        free, held = (
            kept_by(path, part.assign(grammar=single[way], way=way), weights, REQUEST) for way in ("free", HELD)
        )
        free = free[_requests(free).isin(_requests(held))].reset_index(drop=True)
        asked = free.drop(columns=[*ANSWER, *ABOUT])
        again = second_prompts(asked, free["text"].tolist(), generator, catalogue, asking)
        second = kept_by(path, again.assign(grammar=single["second"], way="second"), weights, REQUEST)
        if len(second) < len(again):
            return pd.DataFrame(columns=["model", *REQUEST, "way", "draw", *ANSWER, "dtype"])
        whole = set(_requests(free))
        drawn_as = _asked_as("sample", generator, catalogue, asking)
        draws = [part.assign(grammar=f"{drawn_as} {i}", way="sample", draw=i) for i in range(asking.samples)]
        drawn = kept_by(path, pd.concat(draws, ignore_index=True), weights, REQUEST)
        found = pd.concat([part for part in (free, held, second, drawn) if len(part)] or [free], ignore_index=True)
        parts.append(found[_requests(found).isin(whole)].assign(model=generator))
    answers = pd.concat(parts, ignore_index=True)
    answers["draw"] = answers["draw"].fillna(0).astype(int) if "draw" in answers else 0
    return answers[["model", *REQUEST, "way", "draw", *ANSWER, "dtype"]]


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
    of_file = read(path)
    parts, left = [], []
    for row in rows:
        units = of_file.loc[of_file["writer"].str.split("-").str[0] == row.generator, "unit"]
        known = {name: part[part["pair"].isin(units)] for name, part in order.items() if name == row.test_set}
        wide = row._replace(flows=max(1, sum(map(len, known.values()))))
        found = pd.DataFrame()
        if any(map(len, known.values())):
            found = kept_answers(path, write([wide], known), models, catalogue, asking)
        mine = of_file[of_file["unit"].isin(known[row.test_set]["pair"])] if row.test_set in known else of_file[:0]
        mine = mine[mine["writer"].str.split("-").str[0] == row.generator]
        once = [mine.loc[mine["condition"].str.contains(f" {way} "), "unit"].nunique() for way in COUNTED]
        there = [_units(found, way) for way in COUNTED]
        enough = all(ENOUGH * one <= found_now for one, found_now in zip(once, there, strict=True))
        if enough and there[0] >= row.flows and there[1] >= row.sampled:
            parts.append(found)
        else:
            left.append(row)
    prompts = write(left, order) if left else pd.DataFrame()
    if len(prompts):
        asked = ask_all(prompts, models, catalogue, asking, progress)
        keep_answers(own, prompts, asked, models, catalogue, asking)
        parts.append(asked)
    return pd.concat(parts, ignore_index=True)


def _units(answers: pd.DataFrame, way: str) -> int:
    return answers.loc[answers["way"] == way, "unit"].nunique() if len(answers) else 0


def _requests(answers: pd.DataFrame) -> pd.Series:
    return pd.Series(list(zip(answers["test_set"], answers["unit"], strict=True)), answers.index, dtype=object)


def _asked_as(way: str, generator: str, catalogue: Catalogue, asking: Asking) -> str:
    """What, besides the prompt, decides an answer."""
    if way == "sample":
        return f"sample {asking.max_new_tokens} {asking.temperature} {asking.seed}"
    grammar = flow_grammar(catalogue, stop=STOPS[generator]) if way == HELD else ""
    return f"{way} {asking.max_new_tokens} {grammar}"
