"""Hostile text in every text field of every input and in what models answer: no page has live markup."""

import json
import os
import re
import subprocess
import sys

import pytest
import yaml
from bs4 import BeautifulSoup

from lib.assistant.schemas import WorldKnobs
from lib.assistant.world import simulate
from lib.report import book
from lib.workbook.artifacts import ROOT
from tests.generation.endpoint import Endpoint
from tests.notebooks.smoke import copy_project
from tests.notebooks.test_own_flows import PAIRS, PARCELS

HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(1)> [link](javascript:alert(1)) ![](http://e.example/x.png) "
    "<svg/onload=alert(1)> </pre></td></details> `<b>` &lt;script&gt; \"quoted\" 'too' http://e.example"
)
# What is no free text: names of other records, times, and words out of a list.
KEPT = re.compile(
    r"^(id|query|persona|item|items|need|kind|split|api|apis|app|apps|place|direction|time|today|log_until|email|phone|number|relevant|plan|"
    r"tool|calls|arguments|steps|answers|due|received|start|end|visited|played_time|modified|opens|role|traits|parameters)$"
)


def hostile(value, field=""):
    """A record in which every free text ends in hostile text."""
    if isinstance(value, dict):
        return {name: part if KEPT.match(name) else hostile(part, name) for name, part in value.items()}
    if isinstance(value, list):
        return [hostile(part, field) for part in value]
    return f"{value} {HOSTILE}" if isinstance(value, str) and value else value


def write_lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def write_inputs(folder):
    """A world, documents of APIs, pairs and their flows, all hostile."""
    own = simulate(ROOT / "data", WorldKnobs(n_personas=8, n_training_queries=40, n_evaluation_queries=16))
    kinds = {"personas": own.personas, "queries": own.queries, "gold": own.gold}
    world = {name: [hostile(one.model_dump(mode="json")) for one in records] for name, records in kinds.items()}
    for record, persona in zip(world["personas"], own.personas, strict=True):
        record["traits"] = [f"{trait} {HOSTILE}" for trait in persona.traits]
    world["queries"] = [query | {"split": own.sides[query["id"]]} for query in world["queries"]]
    for name in ("world", "apis"):
        (folder / name).mkdir()
    for name, records in world.items():
        write_lines(folder / "world" / f"{name}.jsonl", records)
    tools = yaml.safe_load((ROOT / "data" / "toolbox.yaml").read_text())
    described = [tool | {"description": f"{tool['description']} {HOSTILE}"} for tool in tools]
    (folder / "world" / "toolbox.yaml").write_text(yaml.safe_dump(described))
    document = json.loads(json.dumps(PARCELS))
    document["info"]["title"] = document["info"]["description"] = f"Parcels {HOSTILE}"
    for operation in (operation for path in document["paths"].values() for operation in path.values()):
        operation["summary"] = operation["description"] = f"{operation['summary']} {HOSTILE}"
        for parameter in operation.get("parameters", []):
            parameter["x-ms-summary"] = parameter["description"] = HOSTILE
    (folder / "apis" / "parcels.json").write_text(json.dumps(document))
    (folder / "apis" / "<img src=x onerror=alert(1)>.json").write_text('{"swagger": "2.0", "paths": {"/a": ')
    said = json.dumps(HOSTILE)[1:-1]
    pairs = [pair | {"request": f"{pair['request']} {HOSTILE}"} for pair in PAIRS if "Tide" not in pair["dsl"]]
    pairs = [pair | {"dsl": re.sub("urgent|fragile|heavy", lambda _: said, pair["dsl"])} for pair in pairs]
    write_lines(folder / "pairs.jsonl", pairs)


SMALL = {
    "encoder": "tiny-encoder", "workflow_encoder": "tiny-encoder", "generator": "tiny-lm", "bootstrap_samples": 100,
}  # fmt: skip
VALUES = {
    "01_data_gen": {"world_folder": "world", "openapi_folder": "apis", "pairs_file": "pairs.jsonl"},
    "02_context_baselines": {},
    "03_cot_augmentation": {"writer": f"remote:gpt-4 {HOSTILE}", "distilled_writer": "tiny-lm",
                            "cot_queries": 4, "cot_training_queries": 4, "distilled_pairs": 2, "cot_max_tokens": 8},
    "08_dsl_retrieval": {"tst_training_pairs": 4, "dsl_training_pairs": 2, "dsl_flows": 2, "dsl_max_tokens": 8},
}  # fmt: skip


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The pages of a report on hostile inputs, whose models behind an endpoint answer with hostile text."""
    project = copy_project(tmp_path_factory.mktemp("hostile"))
    write_inputs(project)
    executed = project / "data" / "generated" / "hostile" / "executed"
    executed.mkdir(parents=True)
    with Endpoint(lambda prompt: f"Look into the mail. {HOSTILE}") as endpoint:
        environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        environment |= {"PYTHONPATH": str(project), "OPENAI_BASE_URL": endpoint.url, "OPENAI_API_KEY": "key"}
        environment["WORKBOOK_BATCH"] = "1"
        for name, values in VALUES.items():
            parameters = project / f"{name}.yaml"
            parameters.write_text(yaml.safe_dump({"profile": "hostile", **SMALL, **values}))
            command = [sys.executable, "-m", "lib.report.execute", "--no-progress-bar", "-f", str(parameters)]
            command += [f"notebooks/{name}.ipynb", str(executed / f"{name}.ipynb")]
            done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=900)
            assert done.returncode == 0, f"{name}: {done.stderr[-3000:]}"
    book.build("hostile", project)
    return {path.stem: path.read_text() for path in (project / "reports" / "hostile").glob("*.html")}


FORBIDDEN = ["svg", "iframe", "object", "embed", "form", "base", "link", "script", "style"]
# Pages of the report, files of the project, and what the notebooks' own text cites.
LINKS = re.compile(r"#|[\w-]+\.html(#|$)|\.\./\.\./data/[\w/.-]+(#[\w-]+)?$|https://(arxiv\.org|github\.com)/")


def live_markup(page):
    """What in a page's article could act or load something; the theme's own frame around it holds none of the text."""
    soup = BeautifulSoup(page, "html.parser")
    article = soup.find("article") or soup
    found = [str(tag)[:80] for tag in article.find_all(FORBIDDEN)]
    for tag in article.find_all(True):
        for name, value in tag.attrs.items():
            target = str(value).strip().lower()
            if name.startswith("on") or name in ("srcset", "formaction", "background"):
                found.append(f"{tag.name} {name}")
            elif name == "src" and not target.startswith("_images/"):
                found.append(f"{tag.name} src={target[:60]}")
            elif name == "href" and not LINKS.match(target):
                found.append(f"{tag.name} href={target[:60]}")
    return found


def test_it_is_seen_where_it_is_live():
    assert len(live_markup(HOSTILE)) >= 3
    for target in ("javascript:x", "http://e.example/x.png", "../../lib/../../../etc/passwd"):
        assert live_markup(f"<a href='{target}'>x</a>"), target
    assert not live_markup("<a href='02_context_baselines.html#x'>x</a><img src='_images/xx.png'>")


@pytest.mark.slow
@pytest.mark.parametrize("name", VALUES)
def test_no_page_has_live_markup_and_the_hostile_text_stands_there_as_text(pages, name):
    assert live_markup(pages[name]) == []
    shown = "onerror=alert(1)" in BeautifulSoup(pages[name], "html.parser").get_text()
    assert shown == (name != "02_context_baselines"), "whose page shows numbers alone"


def test_only_one_module_puts_html_or_markdown_on_a_page():
    """What every page is made with escapes: nothing else may make outputs of its own."""
    allowed = {"lib/workbook/display.py"}
    makers = {"HTML", "Markdown", "Javascript", "SVG", "Latex", "display_html", "display_markdown"}
    for path in sorted((ROOT / "lib").rglob("*.py")):
        if str(path.relative_to(ROOT)) not in allowed:
            taken = re.findall(r"^ *from IPython\S* import (.*)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert not makers & {*re.findall(r"\w+", " ".join(taken))}, path
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "code":
                assert not re.search(r"\b(HTML|Markdown|Javascript|SVG)\(", "".join(cell["source"])), path
