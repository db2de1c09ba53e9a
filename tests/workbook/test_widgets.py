"""A button that asks, with what it says while it works and when it fails."""

import ipywidgets
import pytest
from bs4 import BeautifulSoup

from lib.workbook.artifacts import ArtifactError
from lib.workbook.widgets import Asker, Problem, mark, note, opened, page, problem_html, text

HOSTILE = "<img src=x onerror=alert(1)></td></div><script>alert(1)</script>&amp;"


def words(html):
    parsed = BeautifulSoup(html, "html.parser")
    assert {tag.name for tag in parsed.find_all()} <= {"style", "div", "p", "b"}
    return parsed.div.get_text()


class Echo(Asker):
    """Says what it does, and then what `answer_with` returns."""

    def __init__(self, answer_with):
        super().__init__()
        self.answer_with, self.seen = answer_with, []

    def ask(self):
        self.busy("Looking <up> …")
        self.seen.append((self.button.disabled, self.button.description, words(self.status.value), self.answer.value))
        return self.answer_with()


def test_the_button_is_busy_while_it_asks_and_ready_afterwards():
    echo = Echo(lambda: page("<p>42</p>"))
    for _ in range(2):
        echo.button.click()
        assert words(echo.answer.value) == "42"
        assert words(echo.status.value).startswith("Answered in ")
        assert (echo.button.disabled, echo.button.description, echo.button.icon) == (False, "Ask", "play")
    assert echo.seen == [(True, "Working …", "Looking <up> …", "")] * 2


@pytest.mark.parametrize("error", [Problem("Type one."), ArtifactError("Run <make>.")])
def test_a_known_error_stands_where_the_answer_would(error):
    def fail():
        raise error

    echo = Echo(fail)
    echo.button.click()
    assert words(echo.answer.value) == f"This did not work. {error}"
    assert (echo.status.value, echo.button.disabled) == ("", False)


def test_an_error_that_nobody_foresaw_is_told_with_its_type_and_logged():
    echo = Echo(lambda: {}["key"])
    with pytest.raises(KeyError):
        echo._asked()
    assert words(echo.answer.value) == "This did not work. Unexpected KeyError: 'key'"
    assert echo.button.disabled is False


def test_what_can_be_opened_is_and_what_lacks_artifacts_says_so():
    button = ipywidgets.Button()
    assert opened(lambda: button) is button

    def fail():
        raise ArtifactError(f"lacks {HOSTILE}")

    assert words(opened(fail).value).endswith(HOSTILE)
    with pytest.raises(KeyError):
        opened(lambda: {}["key"])


def test_text_is_never_markup():
    assert text("<\ud800>'\"") == "&lt;\ufffd&gt;&#x27;&quot;"
    assert words(page(note(text(HOSTILE)))) == HOSTILE
    for error in (ArtifactError(HOSTILE), KeyError(HOSTILE)):
        assert HOSTILE in words(problem_html(error, (ArtifactError,))).replace("\\", "")


def test_only_what_is_good_is_marked():
    assert BeautifulSoup(mark(True, "right"), "html.parser").get_text() == " ✓ right"
    assert mark(False, "right") == ""
