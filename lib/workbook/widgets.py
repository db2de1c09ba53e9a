"""What the notebooks that answer a click share: HTML that shows text as text, a button that says what it is doing, and
errors in a reader's words where a reader looks for them."""

from __future__ import annotations

import html
from collections.abc import Callable
from time import perf_counter

import ipywidgets as widgets

from lib.workbook.artifacts import ArtifactError
from lib.workbook.markup import readable

STYLE = """<style>
.explore { line-height: 1.45; max-width: 75em; overflow-wrap: break-word; }
.explore h4 { margin: 1.2em 0 0.3em; font-size: 1.05em; }
.explore p, .explore ol, .explore ul { margin: 0.2em 0; }
.explore p.note { opacity: 0.8; }
.explore table { border-collapse: collapse; margin: 0.3em 0; width: 100%; }
.explore th, .explore td { border: 1px solid #8886; padding: 0.35em 0.6em; text-align: left; vertical-align: top; }
.explore th { font-weight: 600; }
.explore code { white-space: pre-wrap; font-size: 0.95em; background: none; color: inherit; }
.explore .right, .explore .wrong { font-weight: 600; white-space: nowrap; }
.explore .right { color: var(--jp-success-color0, #1b5e20); }
.explore .wrong, .explore .problem { color: var(--jp-error-color0, #b71c1c); }
.explore .problem { border-left: 4px solid; padding: 0.4em 0.8em; }
</style>"""


class Problem(ValueError):
    """A question that cannot be asked; says what to do."""


Known = tuple[type[Exception], ...]


def text(value: object) -> str:
    """A value as HTML that shows just its characters. Whatever comes from data, a model or a user goes through it."""
    return html.escape(readable(value))


def page(*parts: str, style: str = "") -> str:
    """Parts of HTML as the value of a widget.

    Args:
        style: rules of CSS for what only this page has.
    """
    return f"{STYLE}{f'<style>{style}</style>' if style else ''}<div class='explore'>{''.join(parts)}</div>"


def note(words: str) -> str:
    """A remark; `words` is HTML."""
    return f"<p class='note'>{words}</p>"


def mark(good: bool, word: str) -> str:
    return f" <span class='right'>✓ {word}</span>" if good else ""


def problem_html(error: Exception, known: Known) -> str:
    """An error in a reader's words; one that is not of the known types is told with its type."""
    words = str(error) if isinstance(error, known) else f"Unexpected {type(error).__name__}: {error}"
    return page(f"<p class='problem' role='alert'><b>This did not work.</b> {text(words)}</p>")


def opened(make: Callable[[], widgets.Widget]) -> widgets.Widget:
    """What `make` makes; where artifacts are missing, what to do about it."""
    try:
        return make()
    except ArtifactError as error:
        return widgets.HTML(problem_html(error, (ArtifactError,)))


class Asker:
    """A button that asks, what it is doing meanwhile, and the answer or what went wrong; a subclass says how in `ask`.

    Attributes:
        known: errors whose message says what to do; others go into the front end's log, too.
        status: what the button is doing, or how long it took.
        answer: HTML of the last answer, or of what went wrong.
    """

    known: Known = (ArtifactError, ValueError)

    def __init__(self) -> None:
        self.button = widgets.Button(description="Ask", button_style="primary", icon="play")
        self.status, self.answer = widgets.HTML(layout={"margin": "2px 0.8em"}), widgets.HTML()
        self.button.on_click(self._asked)

    def ask(self) -> str:
        """The answer as HTML; tells `busy` what it is at."""
        raise NotImplementedError

    def busy(self, words: str) -> None:
        """Say what is being done."""
        self.button.disabled, self.button.description, self.button.icon = True, "Working …", "spinner spin"
        self.status.value = page(f"<p class='note' role='status'>{text(words)}</p>")

    def _asked(self, _=None) -> None:
        began = perf_counter()
        self.answer.value = ""
        try:
            self.answer.value = self.ask()
            self.status.value = page(note(f"Answered in {perf_counter() - began:.1f} s"))
        except Exception as error:  # this is where a user sees it: the front end shows no traceback of a click
            self.status.value, self.answer.value = "", problem_html(error, self.known)
            if not isinstance(error, self.known):
                raise
        finally:
            self.button.disabled, self.button.description, self.button.icon = False, "Ask", "play"
