"""Verdicts on the index page and in tables/claims.csv."""

import copy

import nbformat
import pandas as pd
import pytest
import yaml
from bs4 import BeautifulSoup
from nbformat.v4 import new_markdown_cell, new_notebook

from lib.evaluation.claim_records import ABOUT, read_claims
from lib.evaluation.claims import BY_ROW, COLUMNS, decide
from lib.evaluation.judgement import VERDICTS, Evidence
from lib.report import agreement, site
from lib.report.verdicts import SYMBOLS, read_verdicts
from lib.workbook.artifacts import Workbook
from lib.workbook.parameters.base import Parameters

ROW = {
    "claim": "a_beats_b", "paper": "assistant", "statement": "A beats <b>B</b> & C.", "effect": 12.345, "ci_low": -1.26,
    "ci_high": 25.9, "p_value": 0.04, "verdict": "reproduced", "reason": "p < .05", "about": "method",
    "as_claimed": True, "source": "section 4.1", "unit": "points", "published": 48.03, "method": "lambdamart_rrf",
    "k": "3", "n": 1234, "clusters": 1234, "detectable": 5.0, "n_needed": float("nan"),
}  # fmt: skip


def claim(**changes):
    """A claim's row as `evaluate` gives it, with one row of its own unless the changes have `rows`."""
    row = ROW | changes
    rows = row.pop("rows", [{}])
    own = {name: row[name] for name in BY_ROW if name in row} | {"overall": row["verdict"], "weakest": True}
    return row | {"rows": [own | change for change in rows]}


OK = {"04_finetuned_search": "ok", "05_lambdamart_rrf": "ok"}


@pytest.fixture
def report(tmp_path):
    """Write claims as {(notebook, name): rows}, build the report, return the index page."""

    def build(tables, failed=()):
        for (notebook, name), rows in tables.items():
            cells = [new_markdown_cell(f"# {notebook}")]
            executed = new_notebook(cells=cells)
            executed.metadata["papermill"] = {
                "end_time": "2024", "duration": 1.0, "exception": True if notebook in failed else None,
            }  # fmt: skip
            path = site.executed_path(notebook, "smoke", tmp_path)
            path.parent.mkdir(parents=True, exist_ok=True)
            nbformat.write(executed, path)
            book_of(tmp_path, notebook).write(name, pd.DataFrame([claim(**row) for row in rows]))
        return index_of(tmp_path)

    return build


def book_of(root, notebook="index"):
    return Workbook(notebook, Parameters(profile="smoke"), root)


def index_of(root):
    site.build("smoke", root)
    return BeautifulSoup((root / "reports" / "smoke" / "index.html").read_text(), "html.parser")


def cells_of(page):
    """Text of the claims' rows, without their folds."""
    page = copy.copy(page)
    for fold in page.select(".trace"):
        fold.decompose()
    return [
        [cell.get_text(" ", strip=True) for cell in row.find_all("td")]
        for row in page.select(".verdicts tbody tr:not(.group)")
    ]


def test_every_verdict_has_a_shape_of_its_own():
    assert list(SYMBOLS) == list(VERDICTS)
    assert len(set(SYMBOLS.values())) == len(SYMBOLS)


def test_the_index_shows_each_claim(report):
    page = report(
        {("05_lambdamart_rrf", "claims_context"): [{}, {"published": float("nan"), "verdict": "contradicted"}]}
    )
    first, second = cells_of(page)
    assert first == [
        "✔ reproduced p < .05",
        "A beats <b>B</b> & C. section 4.1 · LambdaMART-RRF, K = 3, n = 1,234 · notebook 05",
        "+12.3 points [−1.3, 25.9]",
        "+48.0 points",
    ]
    assert (second[0], second[3]) == ("✘ contradicted p < .05", "–")
    assert page.select_one(".verdicts a")["href"] == "05_lambdamart_rrf.html#claim-a_beats_b"
    assert not page.select(".verdicts td b")


@pytest.mark.parametrize(
    ("row", "ours", "published"),
    [
        ({"unit": "percent"}, "12.3% [−1.3, 25.9]", "48.0%"),
        ({"unit": "fold"}, "12.35-fold [−1.26, 25.90]", "48.03-fold"),
        ({"effect": -3.0, "published": -0.04}, "−3.0 points [−1.3, 25.9]", "0.0 points"),
        ({"n": 0, "effect": float("nan"), "method": "", "k": ""}, "–", "+48.0 points"),
    ],
)
def test_units(report, row, ours, published):
    ((_, _, *numbers),) = cells_of(report({("05_lambdamart_rrf", "claims_context"): [row]}))
    assert numbers == [ours, published]


def test_both_papers_are_on_the_index(report):
    """A tally of each paper at the top, then a table of each; a tally counts its own paper's claims alone."""
    flows = {
        "paper": "workflow",
        "method": "tst",
        "k": "5 to 20",
        "n": 12,
        "clusters": 5,
        "verdict": "underpowered",
        "as_claimed": False,
    }
    tables = {
        ("04_finetuned_search", "claims_flows"): [flows, flows | {"about": "training_size", "n": 0}],
        ("05_lambdamart_rrf", "claims_context"): [{}, {}, {"verdict": "contradicted", "as_claimed": False}],
    }
    page = report(tables)
    titles = ["Context Tuning for Retrieval Augmented Generation", "A Comparative Study of DSL Code Generation"]
    assert [heading.get_text() for heading in page.select(".papers h2")] == titles
    folds = page.select("details.claims")
    assert [fold.summary.get_text() for fold in folds] == [
        f"The {n} claims of {title}" for n, title in zip((3, 2), titles, strict=True)
    ]
    assert not any(fold.has_attr("open") for fold in folds)
    tallies = [[int(entry.b.get_text()) for entry in each.find_all("li")] for each in page.select("ul.tally")]
    assert tallies == [[2, 0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 1, 0]]
    text = " ".join(page.get_text(" ").split())
    assert "Of the 3 claims about methods tested here, 2 came out as the paper has them; 1 against it (" in text
    assert (
        "Of the 1 claims about methods tested here, 0 came out as the paper has them; 1 open: more flows would be "
        "needed to tell (" in text
    )
    assert "this profile asks nothing" not in text
    (apart,) = page.select(".apart li")
    assert apart.get_text(" ", strip=True) == f"0 of 1 {ABOUT['training_size']}"
    assert len(page.select("details:not(.trace) > dl")) == 1
    first, second = page.select("table.verdicts")
    assert len(first.select("tbody tr")) == 3
    assert "stand for GPT-4" in text
    assert "stands for both GPT-4" in text
    assert "number of queries" in first.caption.get_text()
    assert "test flows" in second.caption.get_text()
    assert "n = 12 flows (5 on both sides)" in second.get_text()
    assert "on both sides" not in first.get_text()
    place, nowhere = (row.small.find_next("small").get_text() for row in second.select("tbody tr:not(.group)"))
    assert place == "section 4.1 · TST, 5 to 20 few-shots, n = 12 flows (5 on both sides) · notebook 04"
    assert "no query to test it on" in nowhere
    for link in page.select("a[href^='#claims-']"):
        assert page.find(id=link["href"].removeprefix("#")).name == "details"
    assert len(page.select("a[href^='#claims-']")) == 2


def test_the_index_counts_and_explains_the_verdicts(report):
    rows = [{}, {}, {"verdict": "equivalent"}, {"verdict": "equivalent", "as_claimed": False}]
    page = report({("05_lambdamart_rrf", "claims_context"): rows})
    tally = [entry.get_text(" ", strip=True) for entry in page.select(".tally li")]
    assert tally == [
        "2 ✔ reproduced", "0 ↗ same direction", "2 ≈ equivalent", "0 ✘ contradicted", "0 ◐ undecided",
        "0 ? underpowered", "0 ∅ not testable here",
    ]  # fmt: skip
    assert (
        "Of the 4 claims about methods tested here, 3 came out as the paper has them; 1 with no difference worth the "
        "name (" in " ".join(page.get_text(" ").split())
    )
    assert not page.select(".apart")
    assert [term.get_text().split(" ", 1)[1] for term in page.select("details:not(.trace) > dl dt")] == list(VERDICTS)
    headings = [heading.get_text() for heading in page.find_all("h2")]
    assert headings == ["Context Tuning for Retrieval Augmented Generation", "Each claim", "The notebooks", "This run"]


def test_the_counts_in_words_add_up(report):
    """Each verdict twice, as claimed or not: every claim is in one of the numbers, and in no other."""
    rows = [{"verdict": verdict, "as_claimed": False} for verdict in VERDICTS if verdict != "reproduced"] * 2
    rows += [{}, {"verdict": "equivalent"}, {"verdict": "underpowered", "as_claimed": False, "n": 0}]
    page = report({("05_lambdamart_rrf", "claims_context"): [*rows, {"about": "writer"}]})
    (said,) = [line for line in page.select("section p") if line.get_text().startswith("Of the")]
    text = " ".join(said.get_text(" ").split())
    assert text.startswith("Of the 15 claims about methods tested here, 2 came out as the paper has them; 2 leaning ")
    assert "; 5 open: more queries would be needed to tell, 1 of them because this profile asks nothing; 2 not" in text
    in_all, *numbers = [int(number.get_text()) for number in said.find_all("b")]
    assert sum(numbers) - 1 == in_all, "the one that is not asked is among the open ones"


def test_the_answer_to_a_papers_question_comes_before_its_numbers(report):
    claims = [
        {"claim": "context_improves_plans"},
        {"claim": "context_improves_exact_plans"},
        {"claim": "lambdamart_rrf_beats_finetuned", "verdict": "contradicted", "as_claimed": False},
    ]
    page = report({("05_lambdamart_rrf", "claims_context"): claims})
    first = page.select_one("section p")
    assert first.get_text().startswith(
        "Does context tuning work as claimed? Partly: retrieved context makes more plans right; whether context finds "
    )
    assert first.get_text().endswith("; LambdaMART-RRF does not beat fine-tuned search (as far as it is decided).")
    assert first.b.get_text() == first.get_text()
    assert not any(letter.isdigit() for letter in first.get_text())
    linked = first.find_all("a")[0]["href"].removeprefix("#")
    assert page.find(id=linked).name == "tr"
    assert not index_of_others(report).select("p.main")


def index_of_others(report):
    """The index of a report that tested no claim of a main question."""
    return report({("05_lambdamart_rrf", "claims_context"): [{}]})


def test_claims_that_no_method_decides_are_counted_apart(report):
    tables = {
        ("04_finetuned_search", "claims_tools"): [{"about": "writer", "as_claimed": False}, {}],
        ("05_lambdamart_rrf", "claims_context"): [{"about": "definition"}, {"verdict": "contradicted"}],
    }
    page = report(tables)
    tally = [entry.get_text(" ", strip=True) for entry in page.select(".tally li")]
    assert tally[:4] == ["1 ✔ reproduced", "0 ↗ same direction", "0 ≈ equivalent", "1 ✘ contradicted"]
    assert page.select_one("details.apart summary").get_text() == (
        "2 more are counted apart, since something else than the method may decide them: 1 came out as the paper has "
        "them"
    )
    apart = [entry.get_text(" ", strip=True) for entry in page.select(".apart li")]
    assert apart == [f"0 of 1 {ABOUT['writer']}", f"1 of 1 {ABOUT['definition']}"]
    marked = [
        row[1].endswith(end) for row, end in zip(cells_of(page), ("04", "05", "writer", "definition"), strict=True)
    ]
    assert all(marked)
    assert [" · counted apart: " in row[1] for row in cells_of(page)] == [False, False, True, True]
    assert [row.get("class") for row in page.select(".verdicts tbody tr")] == [
        None, None, ["group"], ["apart"], ["group"], ["apart"],
    ]  # fmt: skip


def test_the_table_gathers_all_notebooks_in_their_order(report, tmp_path):
    report(
        {
            ("05_lambdamart_rrf", "claims_a"): [{"claim": "third"}],
            ("04_finetuned_search", "claims_z"): [{"claim": "first"}, {"claim": "second"}],
        }
    )
    table = pd.read_csv(tmp_path / "reports" / "smoke" / "tables" / "claims.csv")
    assert table.columns.tolist() == [*COLUMNS, "n_needed", "method", "published", "overall", "weakest", "turns"]
    assert table["claim"].tolist() == ["first", "second", "third"]
    assert table["effect"].tolist() == [12.345] * 3


def test_a_failed_notebook_has_no_say_and_leaves_no_old_table(report, tmp_path):
    tables = {("05_lambdamart_rrf", "claims_context"): [{}]}
    table = tmp_path / "reports" / "smoke" / "tables" / "claims.csv"
    report(tables)
    assert table.exists()
    page = report(tables, failed=["05_lambdamart_rrf"])
    assert not table.exists()
    assert not page.select(".verdicts, .tally, #verdicts")


@pytest.mark.parametrize("harm", ["truncated", "replaced", "without sidecar"])
def test_a_damaged_file_is_named_and_not_believed(report, tmp_path, harm):
    tables = {("04_finetuned_search", "claims_one"): [{}], ("05_lambdamart_rrf", "claims_two"): [{}]}
    report(tables)
    path = tmp_path / "data" / "generated" / "smoke" / "claims_two.parquet"
    if harm == "truncated":
        path.write_bytes(path.read_bytes()[:-100])
    elif harm == "replaced":
        pd.DataFrame([claim()]).to_parquet(path)
    else:
        path.with_name(path.name + ".meta.json").unlink()
    page = index_of(tmp_path)
    assert "claims_two.parquet: " in page.select_one(".problem").get_text()
    assert len(cells_of(page)) == 1


def test_a_profile_without_claims(tmp_path):
    verdicts, problems = read_verdicts(book_of(tmp_path), OK)
    assert verdicts.empty
    assert problems == []
    assert not index_of(tmp_path).select(".verdicts, .tally, #verdicts, .problem")


def test_the_table_has_a_row_for_each_cutoff(report, tmp_path):
    rows = [{"k": "3", "weakest": False}, {"k": "10", "verdict": "undecided", "n_needed": 2500.0}]
    weak = {"verdict": "undecided", "k": "10", "rows": rows, "n_needed": 2500.0, "reason": "clear by itself"}
    weak["as_claimed"] = False
    page = report({("05_lambdamart_rrf", "claims_context"): [weak, {"claim": "other"}]})
    table = pd.read_csv(tmp_path / "reports" / "smoke" / "tables" / "claims.csv")
    assert table[["claim", "k", "verdict", "overall", "weakest"]].to_numpy().tolist() == [
        ["a_beats_b", 3, "undecided", "undecided", False],
        ["a_beats_b", 10, "undecided", "undecided", True],
        ["other", 3, "reproduced", "reproduced", True],
    ]
    assert table["n_needed"].tolist()[1:2] == [2500]
    first, second = cells_of(page)
    assert first[0] == "◐ undecided clear by itself; 2,500 queries would decide it"
    assert [row.get_text() for row in page.select(".each")] == ["K = 3: ◐ undecided · K = 10: ◐ undecided"]
    assert first[1].endswith("K = 3: ◐ undecided · K = 10: ◐ undecided")
    assert "would decide" not in second[0]
    assert "1 open: more queries would be needed to tell" in " ".join(page.get_text(" ").split())


def test_what_cannot_be_tested_is_said(report):
    page = report({("05_lambdamart_rrf", "claims_context"): [{"verdict": "not testable here", "as_claimed": False}]})
    assert (
        "Of the 1 claims about methods tested here, 0 came out as the paper has them; 1 not testable here ("
        in " ".join(page.get_text(" ").split())
    )
    assert page.select_one("td.verdict-not-testable-here")


def test_verdicts_of_another_version_are_not_read(report, tmp_path):
    report({("05_lambdamart_rrf", "claims_context"): [{}]})
    book_of(tmp_path, "05_lambdamart_rrf").write("claims_context", pd.DataFrame([ROW]))
    page = index_of(tmp_path)
    assert page.select_one(".problem").get_text() == (
        "claims_context.parquet: another version wrote it: run `make report` again"
    )


# ---------------------------------------------------------------- one family a paper, other processors

RECORD = {
    "paper": "assistant", "source": "section 4", "statement": "a beats b", "scores": "scores", "metric": "recall",
    "a": ["semantic"], "b": "bm25t", "cutoffs": [3], "test": "greater", "margin": 2.0,
}  # fmt: skip


@pytest.fixture
def decided(report, tmp_path):
    """Claims of two notebooks from their effects and p-values (se 1), the index page, given measured wobbles."""

    def build(numbers, wobbles=""):
        (tmp_path / "data").mkdir(exist_ok=True)
        records = [RECORD | {"claim": name} for name in numbers]
        (tmp_path / "data" / "claims.yaml").write_text(yaml.safe_dump(records))
        (tmp_path / "data" / "processors.csv").write_text("method,metric,k,one,other\n" + wobbles)
        known = {one.claim: one for one in read_claims(tmp_path / "data" / "claims.yaml")}
        tables = {}
        for place, (name, (effect, p)) in enumerate(numbers.items()):
            seen = {"effect": effect, "ci_low": effect - 1.96, "ci_high": effect + 1.96, "p_value": p}
            cell = Evidence("semantic", "3", n=500, clusters=400, se=1.0, published=10.0, other=40.0, **seen)
            row = decide([known[name]], [{"3": [cell]}]).iloc[0].to_dict()
            tables[list(OK)[place % 2], f"claims_{name}"] = [row]
        return report(tables)

    return build


def test_claims_of_a_paper_are_one_family_on_the_index(decided, tmp_path):
    page = decided({"one": (8.0, 0.03), "two": (8.0, 0.04)})
    firsts = [row[0] for row in cells_of(page)]
    assert all(first.startswith("◐ undecided clear by itself (p = 0.0") for first in firsts)
    assert all(first.endswith("; among this notebook's claims alone: reproduced") for first in firsts)
    assert all("queries would decide it" in first for first in firsts)
    text = " ".join(page.get_text(" ").split())
    assert (
        "Open (undecided or underpowered) means that more queries or flows would be needed to tell: so stayed 2 of the "
        "2 claims about methods (100%). How many is said of each." in text
    )
    assert "another processor" not in text
    table = pd.read_csv(tmp_path / "reports" / "smoke" / "tables" / "claims.csv")
    assert table["p_value"].tolist() == [0.06, 0.06]
    page = decided({"one": (8.0, 0.001), "two": (8.0, 0.04)})
    assert [row[0] for row in cells_of(page)] == ["✔ reproduced significant"] * 2
    assert "so stayed" not in page.get_text()


def test_close_verdicts_are_marked(decided, tmp_path):
    page = decided({"one": (2.2, 0.02), "two": (8.0, 0.001)}, "semantic,recall,3,50.0,50.3\nbm25t,recall,3,9.0,9.0\n")
    first, second = (row[0] for row in cells_of(page))
    assert (
        first == "✔ reproduced significant; close: 0.3 points away, as between processors, it would be same direction"
    )
    assert second == "✔ reproduced significant"
    text = " ".join(page.get_text(" ").split())
    assert "gave other numbers on another processor: semantic search by up to 0.3 points" in text
    assert "1 of 2 verdicts (1 of 2 by cutoff) could turn by as much" in text
    table = pd.read_csv(tmp_path / "reports" / "smoke" / "tables" / "claims.csv", keep_default_na=False)
    assert table["turns"].tolist() == ["same direction", ""]


def test_claims_of_another_version_stay_as_their_notebook_has_them(decided, tmp_path):
    decided({"one": (8.0, 0.03), "two": (8.0, 0.04)})
    (tmp_path / "data" / "claims.yaml").write_text(yaml.safe_dump([RECORD | {"claim": "other"}]))
    page = index_of(tmp_path)
    assert page.select_one(".problem").get_text() == (
        "assistant: another version tested its claims ('one'): run `make report` again"
    )
    assert [row[0] for row in cells_of(page)] == ["✔ reproduced significant"] * 2
    (tmp_path / "data" / "claims.yaml").write_text("no list")
    assert "expected a list of claims" in index_of(tmp_path).select_one(".problem").get_text()


# ---------------------------------------------------------------- beside the report `full`

TABLES = {
    ("05_lambdamart_rrf", "claims_context"): [
        {"claim": "one", "rows": [{"k": "3", "weakest": False}, {"k": "10"}], "k": "10"},
        {"claim": "two", "verdict": "underpowered", "as_claimed": False},
        {"claim": "three"},
    ]
}
FULL = [
    {"claim": "one", "k": 3, "verdict": "reproduced", "overall": "contradicted", "weakest": False, "effect": 9.0},
    {"claim": "one", "k": 10, "verdict": "contradicted", "overall": "contradicted", "weakest": True, "effect": -4.44},
    {"claim": "two", "k": 3, "verdict": "reproduced", "overall": "reproduced", "weakest": True, "effect": 7.0},
    {"claim": "four", "k": 3, "verdict": "reproduced", "overall": "reproduced", "weakest": True, "effect": 7.0},
]


def write_full(root, rows):
    path = root / "reports" / "full" / "tables" / "claims.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    filled = [{name: ROW[name] for name in COLUMNS} | {"n": 936} | row for row in rows]
    pd.DataFrame(filled).to_csv(path, index=False)
    return path


def test_the_verdicts_of_full_stand_beside_its_own(report, tmp_path):
    write_full(tmp_path, FULL)
    page = report(TABLES)
    assert page.select_one(".agreement").get_text() == (
        "1 of 3 verdicts (one for each claim and cutoff that both reports test) are those of the report full; of the "
        "other 2, 1 are open here."
    )
    assert [head.get_text() for head in page.select(".verdicts thead th")][2:] == ["Ours", "Full", "Published"]
    assert [row[3] for row in cells_of(page)] == [
        "✘ contradicted −4.4 points [−1.3, 25.9], n = 936", "✔ reproduced +7.0 points [−1.3, 25.9], n = 936", "–",
    ]  # fmt: skip


def test_where_there_is_no_full_nothing_is_said_of_it(report, tmp_path):
    page = report(TABLES)
    assert not page.select(".agreement")
    assert [len(row) for row in cells_of(page)] == [4] * 3
    # nor where it is empty, older, or tests other claims
    for content in ("", "claim,verdict\none,reproduced\n"):
        write_full(tmp_path, FULL).write_text(content)
        assert not index_of(tmp_path).select(".agreement")
    write_full(tmp_path, FULL[3:])
    page = index_of(tmp_path)
    assert not page.select(".agreement")
    assert [len(row) for row in cells_of(page)] == [4] * 3


def test_full_does_not_stand_beside_itself(report, tmp_path):
    report(TABLES)
    (tmp_path / "data" / "generated" / "smoke").rename(tmp_path / "data" / "generated" / "full")
    write_full(tmp_path, FULL)
    site.build("full", tmp_path)
    page = BeautifulSoup((tmp_path / "reports" / "full" / "index.html").read_text(), "html.parser")
    assert page.select(".verdicts")
    assert not page.select(".agreement")


def test_a_claim_that_full_says_nothing_of_counts_for_neither():
    rows = pd.DataFrame([("one", "3", "reproduced"), ("one", "10", "equivalent"), ("two", "", "reproduced")])
    rows.columns = ["claim", "k", "verdict"]
    full = rows.iloc[[0, 2]].assign(verdict=["reproduced", "undecided"])
    both = agreement.beside_full(rows, full)
    assert both["agrees"].tolist() == [True, False, False]
    assert agreement.in_words(both).startswith("1 of 2 verdicts ")
    assert agreement.in_words(agreement.beside_full(rows, full[:0])) == ""
