"""What notebook 11 shows of Flow-Bench."""

import pandas as pd
import pytest

from lib.workflows.catalogue import Catalogue
from lib.workflows.flow_bench import USER_TASK, FlowBench
from lib.workflows.pages import transfer as page


@pytest.fixture
def bench():
    rows = [
        ("p1", "linear", "", "x", "", "a.b();", ["a.b"], ["a.b"]),
        ("p2", "conditional", "add", "y", "a.b();",
         "for (x of xs) {\n  if (x) {\n    a.b();\n  }\n}\nperson.user_task();", ["a.b", "person.user_task"], []),
        ("p3", "conditional", "delete", "z", "a.b();", "if(x){a.c();}", ["a.c"], ["a.c"]),
    ]  # fmt: skip
    pairs = pd.DataFrame(rows, columns=["pair", "kind", "update", "request", "prior", "dsl", "apis", "new_apis"])
    return FlowBench(Catalogue({"a.b": object(), USER_TASK.name: USER_TASK}, {}), pairs)


def test_requests_by_what_is_asked_for(bench):
    table = page.requests_table(bench.pairs)
    assert table.frame.to_numpy().tolist() == [
        ["a new flow", 1, 1.0, 0, 0, 0],
        ["an edit that adds", 1, 2.0, 1, 1, 1],
        ["an edit that deletes", 1, 1.0, 0, 0, 0],
    ]


FREE, UNDER = "in_context, tst, sfd, free", "in_context, tst, sfd, grammar"
