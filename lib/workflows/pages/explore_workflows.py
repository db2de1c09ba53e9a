"""The widgets of notebook explore_workflows, and what they show of a flow.

Whatever comes from data, a model or a user stands in them as text: everything that enters HTML goes through `text`.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections import Counter
from collections.abc import Sequence

import ipywidgets as widgets
import numpy as np
import pandas as pd

from lib.generation.models import ModelError
from lib.workbook.artifacts import ArtifactError, Workbook
from lib.workbook.inputs import did_you_mean
from lib.workbook.widgets import Asker, Problem, mark, note, opened, page, text
from lib.workflows.ablation import WORDS, title
from lib.workflows.catalogue import Catalogue
from lib.workflows.errors import KINDS, flow_errors
from lib.workflows.execution import executed_alike
from lib.workflows.explorer import (
    UNUSUAL,
    FlowWriter,
    Saved,
    Written,
    check,
    open_writer,
    read_saved,
)
from lib.workflows.language import Flow, FlowError, calls, parse, unfilled
from lib.workflows.power_automate import ExportError, from_power_automate, to_power_automate
from lib.workflows.scoring import score_flow

TESTED, TYPED = "A test request", "A request of your own"
HELD_OUT = "(with an API that no few-shot has) "
SHOTS = (0, 1, 3, 5, 10, 20)
EXAMPLE_SHOTS = 5
DECODING = {"anything": "free", "only flows of the catalogue": "catalogue"}
STYLE = """
.explore mark { background: #f9a82540; color: inherit; text-decoration: underline dotted; }
.explore details { margin: 0.3em 0; }
.explore td.number { text-align: right; white-space: nowrap; }
.explore table.flows td { width: 50%; }
.explore table.flows code, .explore table.shots code { overflow-wrap: anywhere; }
.explore table.shots th:nth-child(3) { width: 38%; }
.explore ul.checks { list-style: none; padding-left: 0; }
"""


# ---------------------------------------------------------------- what is shown


def answer_html(
    request: str, written: Written, max_tokens: int, catalogue: Catalogue, gold: pd.Series | None = None
) -> str:
    """A request with the flow written for it and what was retrieved.

    Args:
        max_tokens: of a flow.
        gold: column dsl of a test request.
    """
    tokens = f"{written.tokens_in:,} tokens read, {written.tokens_out:,} written"
    cost = f"{text(title(written.condition, ''))}: {tokens}"
    compared = "" if gold is None else compared_html(written, gold["dsl"], catalogue)
    parts = [
        f"<p><b>“{text(request)}”</b></p>",
        "<h4>The flow that the model writes</h4>",
        flow_html(written, None if gold is None else gold["dsl"]),
        note(cost + "."),
        unlike_html(written),
        "<h4>Checked against the catalogue</h4>",
        check_html(written, max_tokens, catalogue),
        compared and f"<h4>What differs from the flow that is wanted</h4>{compared}",
        definition_html(written),
        "<h4>Few-shots</h4>",
        few_shots_html(written),
        definitions_html(written, catalogue),
    ]
    return page(*parts, style=STYLE)


def flow_html(written: Written, gold: str | None) -> str:
    """The flow; beside the one that is wanted where that is known, with the lines marked that only one of them has."""
    own = written.text.strip()
    if gold is None:
        return f"<p><code>{text(own or '(nothing)')}</code></p>"
    head = "<tr><th scope='col'>written</th><th scope='col'>wanted</th></tr>"
    sides = [lines_html(own or "(nothing)", gold), lines_html(gold, own)]
    cells = "".join(f"<td><code>{side}</code></td>" for side in sides)
    legend = note("Marked: lines that the other flow does not have.") if "<mark>" in cells else ""
    return f"<table class='flows'>{head}<tr>{cells}</tr></table>{legend}"


def unlike_html(written: Written) -> str:
    """That a request is unlike those of the training pairs; nothing where it is not."""
    if written.nearest >= written.usual:
        return ""
    encoder = text(WORDS[written.condition.selector])
    return note(
        f"This request is unlike the training requests: the nearest of them has a cosine of {written.nearest:.2f} with "
        f"it ({encoder}), where {100 - UNUSUAL}% of them have another one at {written.usual:.2f} or more. "
        "The flow may have little to do with it, whatever the checks say."
    )


def lines_html(flow: str, other: str) -> str:
    """A flow's lines, those that the other one does not have marked; indentation does not count."""
    others = {line.strip() for line in other.splitlines()}
    lines = [line.rstrip() for line in flow.splitlines()]
    return "\n".join(
        text(line) if line.strip() in others else re.sub(r"^(\s*)(.*)", r"\1<mark>\2</mark>", text(line))
        for line in lines
    )


def check_html(written: Written, max_tokens: int, catalogue: Catalogue) -> str:
    """Whether the flow parses, or where not; names and keys that the catalogue does not have; variables used before
    they are assigned; and required keys that are still to be filled in, which is no error."""
    stopped = stopped_html(written, max_tokens)
    checked = check(written.text, catalogue)
    if isinstance(checked, FlowError):
        rest = note("What does not parse is not checked further.")
        return f"<ul class='checks'>{stopped}{line_html(False, f'does not parse: {text(checked)}')}</ul>{rest}"
    names = [f"<code>{text(name)}</code>{text(did_you_mean(name, catalogue.apis))}" for name in checked.made_up_names]
    keys = [f"<code>{text(key)}</code> of <code>{text(api)}</code>" for api, key in checked.made_up_parameters]
    variables = [f"<code>{text(name)}</code>" for name in checked.unassigned]
    lines = [
        line_html(True, "parses"),
        found_html(names, f"every name is one of the catalogue's {len(catalogue):,} APIs", "made-up name"),
        found_html(keys, "every key is one that its API has", "made-up key"),
        found_html(variables, "every variable is assigned before it is used", "variable used before assignment"),
    ]
    return f"<ul class='checks'>{stopped}{''.join(lines)}</ul>{unfilled_html(parse(written.text), catalogue)}"


def unfilled_html(flow: Flow, catalogue: Catalogue) -> str:
    """`Still to fill in: folderId of …`; nothing where all required keys are there."""
    keys = [f"<code>{text(key)}</code> of <code>{text(api)}</code>" for api, key in unfilled(flow, catalogue)]
    return note(f"Still to fill in: {', '.join(keys)}.") if keys else ""


def stopped_html(written: Written, max_tokens: int) -> str:
    """Why an answer did not end by itself; nothing where it did. See `lib.generation.decoding.REPEATS`."""
    if written.finished:
        return ""
    if written.tokens_out < max_tokens:
        return line_html(False, f"stopped after {written.tokens_out} tokens: it only repeated itself")
    return line_html(False, f"cut at {max_tokens} tokens, the most that a flow may have here")


def definition_html(written: Written) -> str:
    """The flow as Power Automate's definition, folded; nothing where it does not parse."""
    try:
        flow = parse(written.text)
    except FlowError:
        return ""
    heading = "<h4>As a Power Automate definition</h4>"
    try:
        definition = to_power_automate(flow)
        again = from_power_automate(definition)
    except ExportError as error:
        return heading + note(f"This flow cannot be exported: {text(error)}.")
    same = executed_alike(again, flow)
    said = (
        "Read back, it is the same flow: run on mocked connectors, both make the same calls with the same arguments."
        if same
        else "Read back, it is another flow: the export has lost something."
    )
    code = text(json.dumps(definition, indent=2, ensure_ascii=False))
    number = len(list(calls(flow)))
    summary = f"The definition of its {f'{number} calls' if number > 1 else 'call'} (JSON)"
    return f"{heading}{note(said)}<details><summary>{summary}</summary><p><code>{code}</code></p></details>"


def found_html(flaws: Sequence[str], none: str, what: str) -> str:
    """One line a flaw, or what is said where there is none."""
    return "".join(line_html(False, f"{what}: {flaw}") for flaw in flaws) or line_html(True, none)


def line_html(good: bool, words: str) -> str:
    """A line of a list, right or wrong; `words` is HTML."""
    sign = "<span class='right'>✓</span>" if good else "<span class='wrong'>✗</span>"
    return f"<li>{sign} {words}</li>"


def compared_html(written: Written, gold: str, catalogue: Catalogue) -> str:
    """Similarity to the flow that is wanted, and kinds of errors."""
    similarity = score_flow(written.text, gold, catalogue).similarity
    kinds = Counter(KINDS[kind] for kind in flow_errors(written.text, gold, catalogue, written.finished))
    errors = "; ".join(f"{text(kind)}{f' ({count} times)' if count > 1 else ''}" for kind, count in kinds.items())
    said = f"Errors: {errors}." if errors else "No error of calls or keys."
    return f"<p>Similarity <b>{similarity:.2f}</b> (1: the same calls in the same order).</p><p>{said}</p>"


def few_shots_html(written: Written) -> str:
    """The few-shots, nearest first: whether the prompt had them, and whether the flow is copied from one."""
    few_shots = written.few_shots
    if few_shots.empty:
        return note("None were asked for.")
    notes = []
    if written.condition.generator == "finetuned":
        notes.append("The fine-tuned model reads the request alone. These are what another model would be shown.")
    elif not few_shots["shown"].all():
        fitted = f"Only the nearest {few_shots['shown'].sum()}" if few_shots["shown"].any() else "None"
        notes.append(f"{fitted} of the {len(few_shots)} fit into the model's window.")
    copied = few_shots.index[few_shots["dsl"].str.strip() == written.text.strip()]
    rows = "".join(
        f"<tr><td class='number'>{place}</td><td class='number'>{row.cosine:.3f}</td><td>{text(row.request)}"
        f"{mark(place - 1 in copied, 'its flow is the answer')}</td><td><code>{text(row.dsl)}</code></td></tr>"
        for place, row in enumerate(few_shots.itertuples(), start=1)
    )
    head = "".join(f"<th scope='col'>{name}</th>" for name in ("", "cosine", "request", "flow"))
    return f"{''.join(map(note, notes))}<table class='shots'><tr>{head}</tr>{rows}</table>"


def definitions_html(written: Written, catalogue: Catalogue) -> str:
    """The definitions of the few-shots' APIs, folded; nothing where none were asked for."""
    names = written.definitions
    if not names:
        return ""
    listed = "".join(f"<li><code>{text(catalogue[name].definition)}</code></li>" for name in names)
    count = f"{len(names)} definition{'s' if len(names) > 1 else ''}"
    summary = f"<summary>{count}: the APIs of these few-shots (FD)</summary>"
    return f"<h4>Definitions</h4><details>{summary}<ul>{listed}</ul></details>"


# ---------------------------------------------------------------- asking


def first_test(saved: Saved, seed: int) -> pd.Series:
    """A test request drawn with the seed.

    Raises:
        ArtifactError: there is none.
    """
    tests = saved.tests[saved.tests["split"] == "test"]
    if tests.empty:
        raise ArtifactError("flows.parquet: no test requests to ask")
    return tests.iloc[np.random.default_rng(seed).integers(len(tests))]


def worked_example(book: Workbook, seed: int, request: str = "") -> str:
    """One request with the flow of the fine-tuned model as HTML, for a page that nobody can click on. Raises as
    `read_saved` and `FlowWriter` do.

    Args:
        seed: of the test request that is asked where `request` is empty.
    """
    saved = read_saved(book)
    test = None if request.strip() else first_test(saved, seed)
    asked, writer = request.strip() if test is None else test["request"], open_writer(book, saved)
    written = writer.write(asked, saved.selectors[0], EXAMPLE_SHOTS, True, "finetuned", "free")
    return answer_html(asked, written, writer.max_tokens, saved.catalogue, test)


class Explorer(Asker):
    """Widgets to ask for a flow: a test request or one of one's own, what is retrieved, which model, and the answer.

    Attributes:
        widget: what a notebook displays.
    """

    known = (ArtifactError, ModelError, ValueError)

    def __init__(self, saved: Saved, writer: FlowWriter, seed: int, request: str = ""):
        """
        Args:
            seed: of the test request that is chosen first.
            request: one of one's own that stands there already, in its place.
        """
        super().__init__()
        self.saved, self.writer = saved, writer
        style = {"description_width": "6em"}
        wide = {"layout": {"width": "100%", "max_width": "60em"}, "style": style}

        def choice(description: str, options: list, width: int) -> widgets.Dropdown:
            layout = {"width": f"{width}em"}
            return widgets.Dropdown(description=description, options=options, layout=layout, style=style)

        self.kind = widgets.ToggleButtons(options=[TESTED, TYPED], style={"button_width": "16em"})
        self.kind.value = TYPED if request.strip() else TESTED
        self.words = widgets.Text(
            description="Containing", placeholder="words, such as: calendar", continuous_update=False, **wide
        )
        self.test = widgets.Dropdown(description="Request", **wide)
        self.whole = widgets.HTML()
        hint = "such as: When a new lead comes in, post it to the sales channel"
        self.typed = widgets.Textarea(request, description="Request", placeholder=hint, rows=3, **wide)
        own = f"fine-tuned on {saved.learned:,} pairs: reads the request alone"
        models = [(own, "finetuned"), ("as it comes: reads few-shots", "untuned")]
        self.generator = choice("Model", models, 38)
        self.decoding = choice("May write", list(DECODING.items()), 24)
        self.shots = choice("Few-shots", [number for number in SHOTS if number <= len(saved.training)], 12)
        self.shots.value = min(EXAMPLE_SHOTS, self.shots.options[-1])
        self.selector = choice("Chosen by", [(WORDS[name], name) for name in saved.selectors], 20)
        self.definitions = choice("Definitions", [("of the few-shots' APIs (FD)", True), ("none", False)], 24)
        self.of_test = widgets.VBox([self.words, self.test, self.whole])
        rows = {"layout": {"flex_flow": "row wrap"}}
        self.widget = widgets.VBox(
            [
                self.kind,
                self.of_test,
                self.typed,
                widgets.HBox([self.generator, self.decoding], **rows),
                widgets.HBox([self.shots, self.selector, self.definitions], **rows),
                widgets.HBox([self.button, self.status]),
                self.answer,
            ]
        )
        self.words.observe(self._words_given, "value")
        self.test.observe(self._test_chosen, "value")
        self.kind.observe(self._kind_chosen, "value")
        self._words_given()
        self.test.value = first_test(saved, seed)["pair"]
        self._kind_chosen()

    def _words_given(self, _=None) -> None:
        """List the test requests that contain all the words."""
        requests, tests = self.saved.tests["request"].str.lower(), self.saved.tests
        for word in self.words.value.lower().split():
            tests = tests[requests[tests.index].str.contains(word, regex=False)]
        names = [
            f"{HELD_OUT * (row.split == 'unseen')}{textwrap.shorten(row.request, 140, placeholder=' …')}"
            for row in tests.itertuples()
        ]
        self.test.options = list(zip(names, tests["pair"], strict=True))
        self.test.value = tests["pair"].iloc[0] if len(tests) else None
        self._test_chosen()

    def _test_chosen(self, _=None) -> None:
        test = self._saved_test()
        self.whole.value = page(note("No test request has these words." if test is None else text(test["request"])))

    def _saved_test(self) -> pd.Series | None:
        tests = self.saved.tests
        return None if self.test.value is None else tests[tests["pair"] == self.test.value].iloc[0]

    def _kind_chosen(self, _=None) -> None:
        typed = self.kind.value == TYPED
        self.of_test.layout.display, self.typed.layout.display = ("none", "") if typed else ("", "none")

    def _question(self) -> tuple[str, pd.Series | None]:
        """The request, and its row where it is a test request.

        Raises:
            Problem: there is none.
        """
        if self.kind.value == TYPED:
            if not self.typed.value.strip():
                raise Problem("The request is empty: type one, or choose a test request.")
            return self.typed.value.strip(), None
        test = self._saved_test()
        if test is None:
            raise Problem("No test request has these words: try others.")
        return test["request"], test

    def ask(self) -> str:
        request, gold = self._question()
        selector, generator = self.selector.value, self.generator.value
        if not self.writer.is_prepared(selector, generator):
            self.busy("Loading the encoder and the model: only their first question waits for them …")
            self.writer.prepare(selector, generator)
        self.busy("Choosing few-shots, and writing the flow …")
        shots, fd, decoding = self.shots.value, self.definitions.value, self.decoding.value
        written = self.writer.write(request, selector, shots, fd, generator, decoding)
        return answer_html(request, written, self.writer.max_tokens, self.saved.catalogue, gold)


def explore(book: Workbook, seed: int, request: str = "") -> widgets.Widget:
    """The widgets on a profile's artifacts; where these are missing, what to do about it. Arguments as for
    `Explorer`."""

    def make() -> widgets.Widget:
        saved = read_saved(book)
        return Explorer(saved, open_writer(book, saved), seed, request).widget

    return opened(make)
