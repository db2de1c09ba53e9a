"""Addresses of the cases behind a number: a view of one of the report's two pages of cases.

`queries.html` has the assistant's queries, `flows.html` the workflows' test flows. A view is named by the part of the
address after `#`: `name=value` pairs joined by `&`, each name at most once, percent-encoded (a plus is a space, too).
All pairs hold at once; what is left out is not asked. So `queries.html#kind=habit&method=bm25t&found=none`.
"""

from __future__ import annotations

from urllib.parse import urlencode

# What each page can be asked for, and what that means.
FILTERS: dict[str, dict[str, str]] = {
    "queries": {
        "kind": "what resolves the query: meaning, habit or either",
        "need": "the need that the query voices",
        "tool": "an API of the right plan",
        "sample": "cot: the queries for which chains of thought were written",
        "method": "a method of context retrieval that ranked the query's items",
        "k": "how many items of its ranking count: 1 to 10, else 3",
        "found": "of the relevant items among these: all, some, none; without method: by any method",
        "setting": "a setting of the planner in which the query was planned",
        "right": "whether that plan is right: yes, no; without setting: in any setting",
        "cause": "the first thing that is wrong with it, as lib.assistant.plans.CAUSES names it",
        "q": "words that all occur in the query, its labels, its items or its plans",
        "case": "the query that is opened",
    },
    "flows": {
        "set": "test set: test, test_same, unseen",
        "api": "an API of the flow that is wanted",
        "half": "one: the flows whose connectors are all of one half, which the in-context model may be asked about",
        "condition": "the condition under which a flow was written, by its name in the artifacts",
        "result": "same: the wanted flow; calls: its calls, other arguments; some: some of them; none: similarity 0",
        "valid": "whether the flow parses and makes nothing up: yes, no",
        "error": "an error of lib.workflows.errors, or a group of them",
        "q": "words that all occur in the request, the wanted flow or a flow shown",
        "case": "the test pair that is opened",
    },
}


def case_address(page: str, **filters: object) -> str:
    """The address of a view, relative to the report's folder; filters that are None or empty are left out.

    >>> case_address("queries", kind="habit", setting="rag", right="no")
    'queries.html#kind=habit&setting=rag&right=no'

    Raises:
        ValueError: there is no such page or filter.
    """
    if page not in FILTERS:
        raise ValueError(f"{page!r} is no page of cases; there are {', '.join(FILTERS)}")
    if unknown := [name for name in filters if name not in FILTERS[page]]:
        raise ValueError(f"{page}.html has no filter {unknown[0]!r}; it has {', '.join(FILTERS[page])}")
    asked = {name: value for name, value in filters.items() if value not in (None, "")}
    return f"{page}.html" + (f"#{urlencode(asked)}" if asked else "")
