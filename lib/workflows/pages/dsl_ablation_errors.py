"""Notebook 09: which errors remain, and one request written in several ways."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from lib.evaluation.inference import percent
from lib.evaluation.rates import rates_with_intervals
from lib.workbook.cases import case_address
from lib.workbook.display import Table, interval, number
from lib.workflows.catalogue import Catalogue
from lib.workflows.errors import GROUP_OF, GROUPS, KINDS, error_table
from lib.workflows.pages.common import api_uses, intervals, rarest_use
from lib.workflows.pages.dsl_ablation import COPY, FINETUNED, HELD, Study
from lib.workflows.scoring import nothing_made_up

REPEATED = 25  # characters at the end of an answer that stand in it before
LONGEST = 600  # characters of a flow that is shown


def looked_at(study: Study) -> list[str]:
    """The conditions whose errors are counted."""
    rows = [("pretrained", 5, "none"), ("pretrained", 5, "fd"), ("pretrained", 20, "none"), ("tst", 20, "fd")]
    return [
        *(study.name(*row) for row in rows),
        study.name("pretrained", 5, decoding="catalogue"),
        FINETUNED,
    ]


def of_retrieval(study: Study) -> list[str]:
    """The conditions that show how errors depend on what is wanted: those with five few-shots of the tables."""
    return [study.name(selector, 5, what) for selector in ("pretrained", "tst") for what in ("none", "fd")]


@dataclass(frozen=True)
class Flaws:
    """The errors of some conditions' flows.

    Attributes:
        scores: of these conditions, columns condition, unit, text, finished, parsed, and dsl (the right flow).
        catalogue: of the APIs that there are.
    """

    scores: pd.DataFrame
    catalogue: Catalogue

    @cached_property
    def errors(self) -> pd.DataFrame:
        """What `error_table` returns."""
        return error_table(self.scores, self.catalogue)

    @property
    def conditions(self) -> list[str]:
        return list(dict.fromkeys(self.scores["condition"]))

    @cached_property
    def sizes(self) -> pd.Series:
        """Flows of each condition."""
        return self.scores.groupby("condition")["unit"].size()

    @cached_property
    def counted(self) -> pd.DataFrame:
        """Columns condition, kind, flows (that have it), times (that it occurs), n (flows of the condition)."""
        kinds = self.errors.groupby(["condition", "kind"], sort=False)
        counted = kinds.agg(flows=("unit", "nunique"), times=("count", "sum")).reset_index()
        return counted.assign(n=counted["condition"].map(self.sizes))


def flaws(study: Study, names: Sequence[str], golds: Mapping[str, str], catalogue: Catalogue) -> Flaws:
    """Of those of the conditions that were asked; `golds` has the right flow of each unit."""
    scores = study.scores[study.scores["condition"].isin(names)]
    done = scores["finished"].fillna(True).astype(bool)  # a copied flow has nothing to say about it
    return Flaws(scores.assign(dsl=scores["unit"].map(golds), finished=done), catalogue)


def kinds_table(study: Study, found: Flaws, max_tokens: int) -> Table:
    """Flows with an error of each kind, one column a condition."""
    kinds = [kind for kind in KINDS if kind in set(found.errors["kind"])]
    heads = {name: f"{brief(study.titles[name])} (n = {found.sizes[name]})" for name in study.present(looked_at(study))}
    columns = {head: _kind_column(found, name, kinds) for name, head in heads.items()}
    cases = {
        head: [case_address("flows", condition=name, error=kind) for kind in kinds] for name, head in heads.items()
    }
    frame = pd.DataFrame({"kind of error": [f"{GROUP_OF[kind]}: {KINDS[kind]}" for kind in kinds]} | columns)
    cut = study.scores.loc[~study.scores["finished"].fillna(True).astype(bool), "text"]
    repeating = sum(text[-REPEATED:] in text[:-REPEATED] for text in cut)
    caption = (
        "Flows of all test sets with an error of each kind, % of all flows, with Wilson's 95% intervals. A flow that "
        "does not parse shows no other error: read the lower rows beside the syntax rows. Not finished: does not "
        f"parse, and reached {max_tokens} tokens or was stopped before, where it only repeated itself; {repeating} of "
        f"the {len(cut)} answers not finished on this page end in text that stands in them before."
    )
    return Table(frame, caption, text_columns=["kind of error"], cases=cases)


def _kind_column(found: Flaws, condition: str, kinds: Sequence[str]) -> list[str]:
    errors = found.errors[found.errors["condition"] == condition]
    units = found.scores.loc[found.scores["condition"] == condition, "unit"]
    shares = (percent(units.isin(errors.loc[errors["kind"] == kind, "unit"]).sum(), len(units)) for kind in kinds)
    return [interval(*share, 0) for share in shares]


def brief(title: str) -> str:
    """A condition's name that fits into a table's head."""
    for long, short in (
        ("pretrained encoder", "pretrained"),
        (", no few-shots", ""),
        (" few-shots", ""),
        ("under the grammar and the ", ""),
    ):
        title = title.replace(long, short)
    return title


def parts_of(asked: pd.DataFrame, training: pd.DataFrame) -> dict[str, pd.Index]:
    """Test flows by what is wanted: pairs by the name of the part.

    Args:
        asked: the test flows, columns apis, n_calls, indexed by pair.
        training: the training flows, column apis.
    """
    units, calls, rarest = asked.index, asked["n_calls"], rarest_use(asked["apis"], api_uses(training))
    return {
        "all": units,
        "one or two calls": units[calls <= 2],
        "three calls or more": units[calls > 2],
        f"rarest API in at most {int(rarest.median()):,} training flows": units[rarest <= rarest.median()],
        "rarest API in more": units[rarest > rarest.median()],
    }


def groups_table(study: Study, found: Flaws, asked: pd.DataFrame, training: pd.DataFrame) -> Table:
    """Flows with an error of each group, over conditions, by what is wanted; arguments as for `parts_of`."""
    parts = parts_of(asked.loc[found.scores["unit"].unique()], training)
    parts = {name: members for name, members in parts.items() if len(members)}
    columns = {
        f"{group}, %": [_group_share(study, found, group, members) for members in parts.values()] for group in GROUPS
    }
    frame = pd.DataFrame({"flows that are wanted": [f"{name} (n = {len(part)})" for name, part in parts.items()]})
    caption = (
        f"Flows with an error of each group, by what is wanted, over {len(found.conditions)} conditions with five "
        "few-shots: syntax of all flows, the others of those that parse; 95% intervals by resampling flows."
    )
    return Table(frame.assign(**columns), caption)


def _group_share(study: Study, found: Flaws, group: str, members: pd.Index) -> str:
    errors = found.errors[found.errors["group"] == group].drop_duplicates(["condition", "unit"])
    hits = errors.groupby("unit").size().reindex(members, fill_value=0).to_numpy()
    parsed = found.scores.groupby("unit")["parsed"].sum().reindex(members).to_numpy(float)
    many = len(found.conditions)
    counting = np.full(len(members), many) if group == "syntax" else parsed
    as_rate = pd.DataFrame({"unit": members, "numerator": hits / many, "denominator": counting / many})
    as_rate = as_rate.assign(condition="", metric=group)
    return intervals(rates_with_intervals(as_rate, [group], study.samples, study.seed), decimals=0)[0]


def commonest(study: Study, found: Flaws) -> str:
    """The commonest error with five few-shots by the pretrained encoder; nothing where there is none."""
    usual = study.name("pretrained", 5)
    missed = found.counted[found.counted["condition"] == usual]
    if missed.empty:
        return ""
    first = missed.sort_values("flows", ascending=False, kind="stable").iloc[0]
    return (
        f"The commonest error with {study.titles[usual]}: {KINDS[first['kind']]}, in {first['flows']} of "
        f"{first['n']} flows."
    )


def typical_flow(study: Study) -> str:
    """Of the valid flows with five few-shots (of all, where none is) the one nearest to their mean similarity."""
    usual = study.scores[study.scores["condition"] == study.name("pretrained", 5)].set_index("unit")
    valid = nothing_made_up(usual)
    usual = usual[valid] if valid.any() else usual
    return (usual["similarity"] - usual["similarity"].mean()).abs().idxmin()


def several_ways_table(study: Study, unit: str, asked: pd.DataFrame) -> Table:
    """One request as several conditions write it; `asked` has columns request, dsl and is indexed by pair."""
    texts = study.scores[study.scores["unit"] == unit].set_index("condition")
    five = [
        study.name("pretrained", 5),
        study.name("pretrained", 5, "fd"),
        study.name("pretrained", 5, "none", "catalogue"),
    ]
    names = [name for name in (COPY, *five, FINETUNED, HELD) if name in texts.index]
    titles = [
        f"{study.titles[name]} (similarity {number(texts.loc[name, 'similarity'], 2)}, executed "
        f"{'right' if texts.loc[name, 'executed'] else 'wrong'})"
        for name in names
    ]
    flows = [asked.loc[unit, "dsl"], *map(_shortened, texts.loc[names, "text"])]
    caption = (
        f"Request: {asked.loc[unit, 'request']} (of the valid flows with five few-shots, the one nearest to their mean "
        "similarity)."
    )
    frame = pd.DataFrame({"": ["the flow that is wanted", *titles], "flow": flows})
    return Table(frame, caption, text_columns=[""], code_columns=["flow"])


def _shortened(text: str) -> str:
    return textwrap.shorten(text, LONGEST, placeholder=" …") if len(text) > LONGEST else text


def prompt_table(study: Study, unit: str, condition: str) -> Table | None:
    """The whole prompt of a condition for a request; None where it was not asked."""
    scores = study.scores[(study.scores["unit"] == unit) & (study.scores["condition"] == condition)]
    if scores.empty:
        return None
    writer = study.writers.named(study.writers.reader)
    caption = f"The whole prompt for this request, {study.titles[condition]}: {writer} goes on from its end."
    return Table(scores[["prompt"]], caption, code_columns=["prompt"])
