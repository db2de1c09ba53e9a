"""Addresses of the cases behind a number: a view of one of the report's two pages of cases.

`queries.html` has the assistant's queries, `flows.html` the workflows' test flows. A view is named by the part of the
address after `#`: `name=value` pairs joined by `&`, each name at most once, percent-encoded (a plus is a space, too).
All pairs hold at once; what is left out is not asked. The names are those of the page's own filters.
"""

from __future__ import annotations

from urllib.parse import urlencode


def case_address(page: str, **filters: object) -> str:
    """The address of a view, relative to the report's folder; filters that are None or empty are left out.

    >>> case_address("queries", kind="habit", setting="rag", right="no")
    'queries.html#kind=habit&setting=rag&right=no'
    """
    asked = {name: value for name, value in filters.items() if value not in (None, "")}
    return f"{page}.html" + (f"#{urlencode(asked)}" if asked else "")
