"""The training loop: what a run is known by."""

from lib.workbook import training
from lib.workbook.artifacts import sha256_of


def test_a_run_is_known_by_the_code_of_its_loop_too(tmp_path):
    """Or a run of an earlier loop would be taken for one of this loop."""
    own = tmp_path / "own.py"
    own.write_text("first")
    before = training.code_hashes(own)
    assert before == [sha256_of(own), sha256_of(training.__file__)]
    own.write_text("second")
    assert training.code_hashes(own) != before
