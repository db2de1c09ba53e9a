"""Tables and a figure of notebook 01: what the tests' requests and flows share with training's.

Where a function takes `nearest`, it is what `lib.workflows.pairs.nearest_training_pairs` returns; `shared` is
that of `leaks` there.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from lib.evaluation.inference import Resampling, mean_interval, percent
from lib.workbook.display import Drawing, Table, interval
from lib.workflows.language import called_apis, parse
from lib.workflows.pages.data_gen import of_split
from lib.workflows.scoring import similarity

DRAWN = {"test": ("#0072B2", "o"), "test_same": ("#009E73", "s"), "unseen": ("#D55E00", "^")}


def shared_table(shared: pd.DataFrame, pairs: pd.DataFrame) -> Table:
    """What training and each test set have in common."""
    sizes = ", ".join(f"{len(of_split(pairs, name)):,} in `{name}`" for name in shared["test_set"].unique())
    return Table(
        shared.rename(columns={"test_set": "test set", "affected": "test pairs affected, %"}),
        f"Distinct values on each side and in both; {len(of_split(pairs, 'training')):,} training pairs, {sizes}.",
        decimals=1,
        text_columns=["what"],
    )


def siblings_table(siblings: pd.DataFrame) -> Table:
    """How many requests cannot tell which API they mean (`lib.workflows.pairs.ambiguity`)."""
    shown = siblings.set_index("split")[["with_siblings", "older"]].mul(100).reset_index()
    names = {"split": "pairs", "with_siblings": "use an API with another version, %",
             "older": "the less usual version is right, %"}  # fmt: skip
    caption = "APIs in an older and a newer form (V1, V2), which requests do not name: no method can know."
    return Table(shown.rename(columns=names), caption, decimals=1)


def similarity_table() -> Table:
    """The workflow paper's example of the similarity of two flows, appendix A.1."""
    right = """triggerOutputs = await shared_microsoftforms.CreateFormWebhook({});
outputs_shared_teams_PostMessageToConversation = shared_teams.PostMessageToConversation({"poster": "User"});"""
    generated = """triggerOutputs = await shared_microsoftforms.CreateFormWebhook({});
outputs_Get_my_profile_V2 = shared_office365users.MyProfile_V2({});
outputs_shared_teams_PostMessage = shared_teams.PostMessageToConversation({"poster": "User", "location": "Channel"});"""
    alike = similarity(called_apis(parse(generated)), called_apis(parse(right)))
    return Table(
        pd.DataFrame({"right": [right], "generated": [generated]}),
        f"Appendix A.1; similarity here {alike:.3f}, published 2/3.",
        code_columns=["right", "generated"],
    )


# ---------------------------------------------------------------- the nearest training request


def nearest_table(nearest: pd.DataFrame, n_training: int, encoder: str, seed: int) -> Table:
    """How near the nearest request is and how good its flow would be, with intervals, a row a set of pairs."""
    rows = []
    for split, part in nearest.groupby("split", sort=False):
        low, median, high = part["cosine"].quantile([0.1, 0.5, 0.9])
        found = mean_interval(part["similarity"].to_numpy(float), Resampling(part["pair"].to_numpy(), seed=seed), 1.0)
        alike = interval(*found, 2)
        same = interval(*percent(part["same_flow"].sum(), len(part)))
        rows.append((split, len(part), f"{median:.2f} ({low:.2f} to {high:.2f})", alike, same))
    columns = ["pairs", "n", "cosine, median (10% to 90%)", "similarity of its flow", "same flow, %"]
    return Table(
        pd.DataFrame(rows, columns=columns),
        f"The training pair with the nearest request, of {n_training:,}; encoder {encoder}. Brackets: 95% intervals.",
    )


def nearest_figure(nearest: pd.DataFrame) -> Drawing:
    """How the cosines with the nearest training request are spread, a line a split."""
    edges = np.arange(np.floor(nearest["cosine"].min() * 20) / 20, 1.001, 0.05)
    shares = {
        split: np.histogram(part["cosine"].clip(upper=edges[-1]), edges)[0] * 100 / len(part)
        for split, part in nearest.groupby("split")
    }
    binned = pd.DataFrame(shares, index=edges[:-1].round(2))
    figure, axis = plt.subplots(figsize=(8, 3.2))
    for split, (color, mark) in DRAWN.items():
        if split in binned:
            axis.plot(binned.index + 0.025, binned[split], color=color, marker=mark, label=f"{split} pairs")
    axis.set(xlabel="cosine with the nearest training request", ylabel="share of pairs, %")
    axis.legend()
    test = of_split(nearest, "test")
    return Drawing(
        figure,
        "nearest_training_request",
        "How near the nearest training request is",
        "Distribution of the cosine between a request and the nearest training request, a line a set of pairs; test "
        "requests from "
        f"{test['cosine'].min():.2f} to {test['cosine'].max():.2f}.",
        binned.rename_axis("cosine_from").reset_index(),
    )


def nearest_examples(nearest: pd.DataFrame, pairs: pd.DataFrame) -> Table:
    """The test request with the nearest training request, one in the middle and the farthest.

    Args:
        pairs: columns pair, request.
    """
    test = of_split(nearest, "test").sort_values("cosine", ignore_index=True)
    three = test.iloc[[len(test) - 1, len(test) // 2, 0]].drop_duplicates("pair")
    request = pairs.set_index("pair")["request"]
    shown = {
        "test request": request[three["pair"]].to_numpy(),
        "nearest training request": request[three["nearest"]].to_numpy(),
    }
    return Table(
        pd.DataFrame(shown | {name: three[name].to_numpy() for name in ("cosine", "similarity")}),
        "The test request with the nearest training request, one in the middle, and the one farthest from all; "
        "similarity is that of the two flows.",
        text_columns=list(shown),
    )
