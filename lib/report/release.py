"""`make dataset`: the worlds as data sets for others, each a folder of `data/release/` with a card.

python -m lib.report.release quick [mixed explicit hard workflows]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from lib.assistant.planner import Desk
from lib.assistant.queries import qrels_of, topic_folds
from lib.assistant.schemas import WorldKnobs
from lib.assistant.signals import signals
from lib.assistant.toolbox import DEFAULT_API
from lib.assistant.world import WORLDS, frames, simulate
from lib.report.train import world_of
from lib.retrieval.stores import bm25t_scores, candidate_pairs, relevant_pairs_mask
from lib.workbook.artifacts import ROOT, ArtifactError, Workbook, atomic_folder
from lib.workbook.inputs import InputError
from lib.workflows.catalogue import Catalogue

FLOWS, CARDS = "workflows", ROOT / "data" / "cards"
TABLES = "items opens queries gold other_plans people toolbox".split()
NEEDED = {"01_data_gen": [*(f"{name}.parquet" for name in (*TABLES, "flows", "reworded")), "catalogue.jsonl"]}
OWN = ("world_folder", "data_writer", "openapi_folder", "pairs_file")
CATEGORIES = ("irrelevance", "multiple", "parallel_multiple")  # the Berkeley leaderboard's, by number of calls
BERKELEY = "BFCL_v4_{}"  # the leaderboard finds a category's file by this name, here and in `possible_answer/`


def write_table(frame: pd.DataFrame, path: Path, *endings: str) -> None:
    """A table as parquet and, by the ending, as JSON lines (`jsonl`, `json`)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for ending in endings:
        file = path.with_name(f"{path.name}.{ending}")
        if ending == "parquet":
            frame.to_parquet(file, index=False, compression="zstd")
        else:
            frame.to_json(file, orient="records", lines=True, force_ascii=False)


def write_beir(folder: Path, tables: Mapping[str, pd.DataFrame], seed: int) -> None:
    """A world of the assistant in BEIR's layout, `corpus`, `queries`, `qrels/train` and `qrels/test`; as parquet, too.

    A query's corpus are the items of its persona, named in the `metadata` of both; their ids begin with its id. A
    query's metadata have its labels: topic, its fold of five by `seed` (`topic_folds`; those of 0 are `new`), kind.
    `tables` are a world's, see `lib.assistant.world.frames`.
    """
    items, gold = tables["items"].astype({"shown": str}), tables["gold"]
    corpus = items[["item", "title"]].rename(columns={"item": "_id"})
    texts = zip(items["title"], items["text"], strict=True)  # the title is put before it again by who reads the file
    corpus["text"] = [text.removeprefix(title).removeprefix(". ") for title, text in texts]
    corpus["metadata"] = items[["persona", "app", "shown"]].to_dict("records")
    labels = topic_folds(gold, seed).assign(kind=gold["kind"].astype(str).to_numpy())
    asked = tables["queries"].astype({"time": str}).join(labels, on="query")
    asked["topics"] = asked["fold"].map(lambda fold: "known" if fold else "new")
    queries = asked[["query", "text"]].rename(columns={"query": "_id"})
    about = asked[["persona", "split", "time", "place", "topic", "topics", "fold", "kind"]]
    queries["metadata"] = about.to_dict("records")
    write_table(corpus, folder / "corpus", "jsonl", "parquet")
    write_table(queries, folder / "queries", "jsonl", "parquet")
    for side, name in (("training", "train"), ("evaluation", "test")):
        qrels = qrels_of(gold[gold["split"] == side]).set_axis(["query-id", "corpus-id"], axis=1).assign(score=1)
        write_table(qrels, folder / "qrels" / name, "parquet")
        qrels.to_csv(folder / "qrels" / f"{name}.tsv", sep="\t", index=False, lineterminator="\n")


def write_usage(folder: Path, tables: Mapping[str, pd.DataFrame]) -> None:
    """As parquet: `opens` (the log), `people` (address books), `gold` and `other_plans` (tools, plans, answers), and
    `signals`: for every query and item of its persona whether it is relevant, and what LambdaMART sees, text by BM25T
    alone (see `lib.assistant.signals.signals`)."""
    queries, items = tables["queries"], tables["items"]
    pairs = candidate_pairs(queries, items, on="persona")
    text = {"bm25t": bm25t_scores(pairs, queries, items, within=["persona"])}
    seen = signals(pairs, queries, items, tables["opens"], text).astype("float32")
    pairs["split"] = queries["split"].to_numpy()[pairs["query_row"]]
    pairs["relevant"] = relevant_pairs_mask(pairs, qrels_of(tables["gold"]))
    write_table(pairs[["query", "item", "split", "relevant"]].join(seen), folder / "signals", "parquet")
    for name in ("opens", "people", "gold", "other_plans"):
        write_table(tables[name], folder / name, "parquet")


def write_berkeley(folder: Path, tables: Mapping[str, pd.DataFrame]) -> None:
    """Evaluation queries as Berkeley questions over the whole toolbox, and possible answers. The system's message has
    the moment on its first line, then the relevant items in words.

    Two calls are `parallel_multiple`, which knows no order; `irrelevance` has no answers. `also` has other plans that
    do as well, which the leaderboard's checker does not read.
    """
    desk = Desk(tables["items"], tables["people"], tables["toolbox"])
    for function in desk.functions:  # the leaderboard's name of an object, and what its checker wants of a list
        function["parameters"]["type"] = "dict"
        for schema in function["parameters"]["properties"].values():
            schema |= {"items": {"type": "string"}} if schema["type"] == "array" else {}
    others = tables["other_plans"].groupby("query")["answers"].agg(lambda texts: [*map(json.loads, texts)])
    asked = tables["queries"].merge(tables["gold"].drop(columns="split"), on="query").query("split == 'evaluation'")
    for n_calls, part in asked.groupby(asked["apis"].map(lambda apis: len({*apis} - {DEFAULT_API}))):
        name, questions = CATEGORIES[n_calls], []
        for query in part.itertuples():
            known = desk.context_lines(query.persona, query.text, query.relevant)
            moment = f"It is {query.time:%A %Y-%m-%d %H:%M}. Place: {query.place}. From the user's apps:"
            said = {"system": "\n".join([moment, *known]), "user": query.text}
            questions.append([[{"role": role, "content": content} for role, content in said.items()]])
        records = part[["query"]].reset_index(drop=True)
        records.insert(0, "id", [f"{name}_{number}" for number in range(len(part))])
        asking = records.assign(question=questions, function=[desk.functions] * len(part))
        write_table(asking, folder / BERKELEY.format(name), "json")
        if n_calls:
            answers = records.assign(ground_truth=[*map(json.loads, part["answers"])])
            answers["also"] = answers["query"].map(others)
            write_table(answers, folder / "possible_answer" / BERKELEY.format(name), "json")


def write_workflows(folder: Path, book: Workbook) -> None:
    """The pairs of each split, those reworded by hand, and the catalogue, as JSON lines and as parquet."""
    columns = ["pair", "split", "request", "dsl", "apis"]
    parts = {str(split): part[columns] for split, part in book.read("flows").groupby("split", sort=False)}
    parts["reworded"] = book.read("reworded").assign(split="reworded")[columns]
    apis = list(Catalogue.from_lines(book.read_lines("catalogue")))
    told = ["name", "app_name", "display_name", "description", "trigger", "in_training"]
    parts["catalogue"] = pd.DataFrame([[getattr(api, name) for name in told] for api in apis], columns=told)
    parts["catalogue"]["definition"] = [api.definition_in("described") for api in apis]
    parts["catalogue"]["metadata"] = [json.dumps(api.metadata, ensure_ascii=False) for api in apis]
    for name in [name for name, part in parts.items() if len(part)]:
        write_table(parts[name], folder / name, "jsonl", "parquet")


def make_release(arguments: list[str], root: Path = ROOT) -> int:
    """Write data sets anew; returns the exit code. `arguments` are a profile, then worlds of the assistant and
    `workflows`; without any, the profile's own world and these."""
    profile, names = arguments[0], arguments[1:]
    try:
        if wrong := [name for name in names if name not in (*WORLDS, FLOWS)]:
            raise InputError(f"there is no data set {wrong[0]}, but {', '.join(WORLDS)} and {FLOWS}")
        book = world_of(profile, "01_data_gen", NEEDED, root=root)
        made = book.parameters_of("items.parquet")
        if own := [key for key in OWN if getattr(made, key)]:
            raise InputError(f"profile {profile} sets {own[0]}: the release holds the simulated worlds alone")
        for name in names or [made.world, FLOWS]:
            with atomic_folder(root / "data/release" / name) as folder:
                if name == FLOWS:
                    write_workflows(folder, book)
                else:  # another world than the profile's has its sizes and seed
                    tables = {table: book.read(table) for table in TABLES}
                    if name != made.world:
                        tables = frames(simulate(root / "data", WorldKnobs.of(made, world=name)))
                    write_beir(folder, tables, made.seed)
                    write_usage(folder, tables)
                    write_berkeley(folder / "berkeley", tables)
                paths = [path for path in sorted(folder.glob("*.parquet")) if path.stem != "catalogue"]
                splits = ", ".join(f"{{split: {path.stem}, path: {path.name}}}" for path in paths)
                card = (CARDS / f"{FLOWS if name == FLOWS else 'assistant'}.md").read_text(encoding="utf-8")
                card = card.replace("WORLD", name).replace("PROFILE", profile).replace("SPLITS", splits)
                (folder / "README.md").write_text(card, encoding="utf-8")
            print(f"data/release/{name}", flush=True)
    except (InputError, ArtifactError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(make_release(sys.argv[1:]))
