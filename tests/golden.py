"""The golden file: what must stay as it is while the code around it changes.

    python -m tests.golden                    compare small worlds, pairs and prompts with tests/golden.json
    python -m tests.golden --write            record them there
    python -m tests.golden record DATA FILE   record what a run left in DATA (data/generated/<profile>)
    python -m tests.golden compare DATA FILE  compare what a later run left there

Frames and prompts are compared as SHA-256, column by column: kept answers are found by their prompts, so one changed
blank costs days. Scores of a run are compared as numbers. They are those of one machine: rankers that are trained
anew differ between processors. What only one side has is named and is no fault.
"""

import hashlib
import json
import pickle
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from lib.assistant import prompts
from lib.assistant.planner import Desk
from lib.assistant.schemas import WorldKnobs
from lib.assistant.world import frames, simulate
from lib.workflows import prompts as flow_prompts
from lib.workflows.catalogue import Catalogue
from lib.workflows.few_shots import few_shot_definitions
from lib.workflows.generating import generate
from lib.workflows.pairs import read_values

DATA = Path(__file__).parents[1] / "data"
FILE = Path(__file__).with_name("golden.json")
MADE = ("items opens queries gold other_plans provenance people toolbox flows reworded personas catalogue").split()
SCORES = ("context_scores", "tool_scores", "planner_scores", "ablation_scores", "finetuned_flows", "few_shots")
CLOSE = 1e-9


def digest(values) -> str:
    """SHA-256 of a column, or of texts."""
    text = json.dumps(list(values), default=_plain, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value):
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else str(value)


def columns_of(frame: pd.DataFrame) -> dict[str, str]:
    return {str(column): digest(frame[column]) for column in frame.columns}


def small() -> dict[str, dict[str, str]]:
    """Digests of a small world of each name, of 1,400 pairs, and of the prompts that can be made of them alone."""
    found = {}
    for name in ("explicit", "mixed", "hard"):
        knobs = WorldKnobs(seed=7, world=name, n_personas=28, n_training_queries=112, n_evaluation_queries=48)
        tables = frames(simulate(DATA, knobs))
        found |= {f"{name} {table}": columns_of(frame) for table, frame in tables.items()}
        if name == "mixed":
            found["prompts of the assistant"] = assistant_prompts(tables)
    catalogue = Catalogue.load(DATA / "catalogue")
    sizes = {"training": 1000, "test": 200, "unseen": 100, "test_same": 100}
    pairs = generate(catalogue, read_values(DATA / "values.yaml"), sizes)
    found["pairs"] = columns_of(pairs)
    found["prompts of the workflows"] = workflow_prompts(pairs, catalogue)
    return found


def assistant_prompts(tables: dict[str, pd.DataFrame]) -> dict[str, str]:
    """Those of chains of thought, plans, and of the writer of data."""
    queries, gold = tables["queries"], tables["gold"].set_index("query")
    desk = Desk(tables["items"], tables["people"], tables["toolbox"])
    tools = tables["toolbox"].iloc[:, 0].tolist()[:10]
    plans = []
    for row in queries.to_dict("records"):
        items = sorted(gold.loc[row["query"], "relevant"])[:3]
        for shown_tools, shown_items in ((None, None), (tools, None), (None, items), (tools, items)):
            plans.append(desk.prompt(row, shown_tools, shown_items))
    texts = queries["text"].tolist()
    return {
        "chains": digest([prompts.cot_prompt(text, prompts.CONTEXT_TYPES["apps"]) for text in texts]),
        "chains, distilled": digest([prompts.distilled_cot_prompt(text) for text in texts]),
        "plans": digest(plans),
        "personas": digest([prompts.persona_prompt(30 + i, "health", "A. B.") for i in range(3)]),
        "items": digest([prompts.items_prompt("Ann", app, 3, "now", "a", "b") for app in prompts.APP_CONTENTS]),
        "requests": digest([prompts.query_prompt("Ann", ["x"], "y", way, "z") for way in prompts.MANNERS]),
    }


def workflow_prompts(pairs: pd.DataFrame, catalogue: Catalogue) -> dict[str, str]:
    """Those of the fine-tuned model, and of few-shots with definitions in each form."""
    training = pairs[pairs["split"] == "training"]
    shots = list(zip(training["request"], training["dsl"], strict=True))[:5]
    named = few_shot_definitions(range(5), training["apis"].tolist())
    asked = pairs.loc[pairs["split"] != "training", "request"].tolist()[:100]
    found = {"fine-tuned": digest([flow_prompts.finetuned_prompt(request) for request in asked])}
    for form in ("", "compact", "described", "record"):
        shown = [catalogue[name].definition_in(form) for name in named] if form else []
        found[f"few-shots {form}".strip()] = digest(
            ["".join(flow_prompts.metaprompt_parts(text, shots, shown)) for text in asked]
        )
    return found


# ---------------------------------------------------------------- what a run left


def of_run(folder: Path) -> dict:
    """Digests of the frames of 01, of prompts and their answers, and the scores, of a run."""
    made, prompted, scores = {}, {}, {}
    for path in sorted(folder.glob("*.parquet")):
        frame = pd.read_parquet(path)
        if path.stem in MADE:
            made[path.stem] = columns_of(frame)
        if path.stem in SCORES:
            scores[path.stem] = frame
        if "prompt" in frame.columns:
            names = [name for name in ("model", "world", "setting", "condition", "test_set") if name in frame.columns]
            parts = frame.groupby(names, dropna=False) if names else [("all", frame)]
            for key, part in parts:
                label = " ".join([path.stem, *map(str, key if isinstance(key, tuple) else (key,))])
                prompted[label] = digest(sorted(part["prompt"].astype(str)))
    for path in sorted(folder.glob("*.jsonl")):
        if path.stem in MADE:
            made[path.stem] = {"lines": digest(path.read_text(encoding="utf-8").splitlines())}
    return {"made": made, "prompts": prompted, "scores": scores}


def differences(before: dict[str, dict[str, str]], after: dict[str, dict[str, str]]) -> list[str]:
    """What has changed, a line each; what only one side has is marked as left or new."""
    found = []
    for name in sorted(before.keys() | after.keys()):
        if name not in after or name not in before:
            found.append(f"{'left' if name in before else 'new'}: {name}")
            continue
        old, new = before[name], after[name]
        for column in sorted(old.keys() | new.keys()):
            if column not in new or column not in old:
                found.append(f"{'left' if column in old else 'new'}: {name}, {column}")
            elif old[column] != new[column]:
                found.append(f"CHANGED: {name}, {column}")
    return found


def score_differences(before: pd.DataFrame, after: pd.DataFrame, name: str) -> list[str]:
    """Scores that differ by more than `CLOSE`, and how many rows only one side has."""
    shared = [column for column in before.columns if column in after.columns]
    numbers = [c for c in shared if pd.api.types.is_float_dtype(before[c]) and c not in ("seconds", "elapsed")]
    keys = [
        c for c in shared if c not in numbers and not before[c].map(lambda v: isinstance(v, np.ndarray | list)).any()
    ]
    old = before.drop_duplicates(keys).set_index(keys)[numbers]
    new = after.drop_duplicates(keys).set_index(keys)[numbers]
    both = old.index.intersection(new.index)
    apart = (old.loc[both].sub(new.loc[both]).abs() > CLOSE) | (old.loc[both].isna() != new.loc[both].isna())
    lines = [f"{name}: {len(both):,} of {len(old):,} rows before and {len(new):,} after are shared"]
    lines += [
        f"CHANGED: {name}, {column}: {int(apart[column].sum()):,} rows" for column in numbers if apart[column].any()
    ]
    return lines


def compare_run(before: dict, after: dict) -> list[str]:
    found = differences(before["made"], after["made"])
    found += differences({"prompts": before["prompts"]}, {"prompts": after["prompts"]})
    for name in before["scores"]:
        if name in after["scores"]:
            found += score_differences(before["scores"][name], after["scores"][name], name)
        else:
            found.append(f"left: {name}")
    return found


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["record"]:
        Path(arguments[2]).write_bytes(pickle.dumps(of_run(Path(arguments[1]))))
        return 0
    if arguments[:1] == ["compare"]:
        found = compare_run(pickle.loads(Path(arguments[2]).read_bytes()), of_run(Path(arguments[1])))
    elif arguments == ["--write"]:
        FILE.write_text(json.dumps(small(), indent=1) + "\n", encoding="utf-8")
        return 0
    else:
        found = differences(json.loads(FILE.read_text(encoding="utf-8")), small())
    print("\n".join(found) or "all as recorded")
    return int(any(line.startswith("CHANGED") for line in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
