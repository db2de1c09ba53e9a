import shutil
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from lib.workbook.parameters.base import ProfileError, check_parameters, literal_assignments
from lib.workbook.parameters.dsl_ablation import COMPARED_WITH, Condition, DSLAblation
from lib.workbook.profiles import BESIDE, MODELS, NOTEBOOKS, read_profile, write_notebook_parameters
from tests.workflows.ablation_rows import ABLATION

ROOT = Path(__file__).resolve().parents[2]
SIZE = "n_personas: 14"  # of smoke, in its file
PROFILES = sorted((ROOT / "notebooks" / "profiles").glob("*.yaml"))


@pytest.fixture
def profile(tmp_path):
    """Copy the smoke profile, let the test change its text, and read it."""

    def changed(old="", new="", name="smoke"):
        text = (ROOT / "notebooks" / "profiles" / "smoke.yaml").read_text()
        assert old in text
        path = tmp_path / f"{name}.yaml"
        path.write_text(text.replace(old, new, 1) if old else text + new)
        return path

    return changed


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_every_profile_of_the_project_is_valid(path):
    assert read_profile(path)["profile"] == path.stem


def test_the_four_profiles_exist():
    assert {path.stem for path in PROFILES} >= {"smoke", "quick", "full", "paper"}


def test_notebooks_beside_the_report_are_not_in_it(tmp_path):
    values = read_profile(ROOT / "notebooks" / "profiles" / "smoke.yaml")
    assert not {model.notebook for model in BESIDE} & (
        set(NOTEBOOKS) | set(write_notebook_parameters(values, tmp_path))
    )


def test_a_profile_may_name_what_only_a_notebook_beside_the_report_knows(profile):
    assert read_profile(profile("", "queries_file: mine.json\n"))["queries_file"] == "mine.json"
    with pytest.raises(ProfileError, match=r"toolbox_file needs a queries_file.*\[notebook own_functions\]"):
        read_profile(profile("", "toolbox_file: mine.json\n"))


def test_quick_has_the_published_sizes():
    values = read_profile(ROOT / "notebooks" / "profiles" / "quick.yaml")
    assert (values["n_personas"], values["n_training_queries"], values["n_evaluation_queries"]) == (791, 4338, 936)
    assert (values["n_training_pairs"], values["n_test_pairs"], values["tst_pairs"]) == (67_000, 1_000, 100_000)


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        (SIZE, "n_persona: 28", "n_persona"),
        (SIZE, "n_personas: forty", "n_personas"),
        (SIZE, 'n_personas: "28"', "n_personas"),
        (SIZE, "n_personas: 28.5", "n_personas"),
        (SIZE, "n_personas: true", "n_personas"),
        (SIZE, "n_personas: 3", "n_personas"),
        ("seed: 7", "seed: -1", "seed"),
        ("seed: 7", "seed:", "seed"),
        ("", "cutoffs: [3, 0]\n", "cutoffs"),
        ("", "cutoffs: 3\n", "cutoffs"),
        ("", "split: persona\n", "split"),
        ("", "meaning_share: 0.7\nhabit_share: 0.7\n", "meaning_share"),
        ("", "habit_strength: 1.01\n", "habit_strength"),
        ("", "habit_strength: .nan\n", "habit_strength"),
        ("", "seed: 8\n", "seed"),
        ("", "length_shares: [0.5, 0.5]\n", "length_shares"),
        ("", "tst_threshold: 1.0\n", "tst_threshold"),
        ("", "world_folder: mine\ndata_writer: theirs\n", "world_folder and data_writer exclude each other"),
        ("", "written_toolbox: true\n", "written_toolbox needs a data_writer"),
        ("", "n_personas: {a: [\n", "cannot be read"),
        ("profile: smoke", "profile: quick", "profile"),
    ],
)
def test_an_error_names_the_file_and_the_key(profile, old, new, key):
    path = profile(old, new)
    with pytest.raises(ProfileError) as caught:
        read_profile(path)
    message = str(caught.value)
    assert str(path) in message
    assert key in message
    assert "\n" not in message


def test_a_typo_gets_a_suggestion(profile):
    with pytest.raises(ProfileError, match="did you mean n_personas"):
        read_profile(profile(SIZE, "n_persnas: 28"))


def test_a_missing_profile_lists_the_others(profile):
    path = profile()
    with pytest.raises(ProfileError, match=r"no such profile \(there are: smoke\)"):
        read_profile(path.with_name("smke.yaml"))


def test_notebook_check_rejects_unknown_injected_names():
    with pytest.raises(ProfileError, match="n_persnas"):
        check_parameters(NOTEBOOKS["01_data_gen"], {"In": ["", "# Parameters\nn_persnas = 5\n"], "n_persnas": 5})


def test_notebook_check_lets_names_of_other_notebooks_through():
    cells = ["import os", "seed = 3\nsplit = 'need'", "writer = 'x'", "total = seed + 1"]
    parameters = check_parameters(
        NOTEBOOKS["01_data_gen"], {"In": cells, "seed": 3, "split": "need", "writer": "x", "total": 4}
    )
    assert (parameters.seed, parameters.split) == (3, "need")


def test_notebook_check_rejects_the_integer_that_papermill_makes_of_a_name():
    with pytest.raises(ProfileError, match="profile"):
        check_parameters(NOTEBOOKS["01_data_gen"], {"In": ["profile = 7"], "profile": 7})


def test_literal_assignments_are_told_from_work():
    assert literal_assignments("a = 1  # one\nb = [2, 'c']") == {"a": 1, "b": [2, "c"]}
    assert literal_assignments("a: int = 1  # one") == {"a": 1}
    for work in ("a = 1\nprint(a)", "a = f(1)", "a = b = 1", "a: int", "%matplotlib inline"):
        assert literal_assignments(work) == {}


def test_parameter_files_change_only_with_their_content(tmp_path):
    values = read_profile(ROOT / "notebooks" / "profiles" / "smoke.yaml")
    paths = write_notebook_parameters(values, tmp_path)
    stamps = {name: path.stat().st_mtime_ns for name, path in paths.items()}
    write_notebook_parameters(values, tmp_path)
    assert {name: path.stat().st_mtime_ns for name, path in paths.items()} == stamps
    write_notebook_parameters(values | {"n_personas": 41}, tmp_path)
    changed = {name for name, path in paths.items() if path.stat().st_mtime_ns != stamps[name]}
    assert changed == {"01_data_gen"}


def test_notebook_defaults_equal_the_quick_profile():
    """The parameters cells, the models' defaults and quick.yaml are three places that must say the same; a notebook
    beside the report may have a profile of its own."""
    import nbformat

    quick = read_profile(ROOT / "notebooks" / "profiles" / "quick.yaml")
    for model in (*MODELS, *BESIDE):
        notebook = nbformat.read(ROOT / "notebooks" / f"{model.notebook}.ipynb", as_version=4)
        cell = next(cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", []))
        values = {}
        exec(cell.source, values)
        for key in model.model_fields:
            assert values[key] == close(model.model_fields[key].get_default()), key
            if key in quick and (key != "profile" or model in MODELS):
                assert values[key] == close(quick[key]), key


def close(value):
    return value if isinstance(value, list) and isinstance(value[0], list) else pytest.approx(value)


def test_papermill_takes_a_whole_profile(tmp_path):
    """Every value of a profile is YAML that papermill reads to the same Python value."""
    path = tmp_path / "quick.yaml"
    shutil.copy(ROOT / "notebooks" / "profiles" / "quick.yaml", path)
    assert yaml.safe_load(path.read_text()) == read_profile(path)


# ---------------------------------------------------------------- the ablation's rows


def ablation(rows):
    return DSLAblation(ablation=[*ABLATION, *rows])


def test_a_row_of_the_ablation_is_a_list():
    row = Condition.model_validate(["tst", 20, "fd_sfd", "untuned", "free", 12])
    assert (row.selector, row.shots, row.definitions, row.flows) == ("tst", 20, "fd_sfd", 12)
    assert row.name == "tst_20_fd_sfd"
    names = {row.name for row in ablation([]).ablation}
    assert {"pretrained_5", "no_shots_in_context", "tst_5_finetuned", "no_shots_finetuned_catalogue"} <= names
    assert len(names) == len(ABLATION)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (["tst", 20, "fd"], "a row must have 6 entries: selector, shots, definitions, generator, decoding, flows"),
        (["tst", 20, "all", "untuned", "free", 12], "definitions"),
        (["tst", "20", "fd", "untuned", "free", 12], "shots"),
        (["tst", 5, "fd", "untuned", "free", 0], "flows"),
        (["tst", 5, "fd", "finetuned", "free", 9], "reads no definitions"),
        (["tst", 5, "fd", "in_context", "free", 9], "two rows are tst_5_fd_in_context"),
        (["random", 5, "sfd", "in_context", "free", 9], "needs the few-shots of one of pretrained, tst, tst_affine"),
    ],
)
def test_an_impossible_row_says_what_is_wrong(row, words):
    with pytest.raises(ValidationError, match=words):
        ablation([row])


@pytest.mark.parametrize("missing", COMPARED_WITH)
def test_the_papers_rows_with_five_few_shots_must_be_there(missing):
    with pytest.raises(ValidationError, match=r"the paper's row .* is missing"):
        DSLAblation(ablation=[row for row in ABLATION if row[:3] != [*missing] or row[3:5] != ["in_context", "free"]])


def test_table_4_needs_the_fine_tuned_model():
    with pytest.raises(ValidationError, match="Table 4 needs the row"):
        DSLAblation(ablation=[row for row in ABLATION if row[3:5] != ["finetuned", "free"] or row[1]])


def test_who_stands_for_gpt_4():
    assert DSLAblation().reader == "in_context"
    assert DSLAblation(untuned_generator="other", ablation=UNTUNED).reader == "untuned"
    with pytest.raises(ValidationError, match=r"the paper's row .*'untuned', 'free'. is missing"):
        DSLAblation(untuned_generator="other")


def test_rows_of_an_instruct_model_need_its_name():
    row = ["pretrained", 5, "none", "instruct", "free", 1]
    assert [one.name for one in ablation([row]).rows] == [one.name for one in ablation([]).ablation]
    named = DSLAblation(ablation=[*ABLATION, row], instruct_generator="Qwen")
    assert named.rows[-1].name == "pretrained_5_instruct"


# ---------------------------------------------------------------- models behind an endpoint

UNTUNED = [[*row[:3], "untuned", *row[4:]] for row in ABLATION if row[3] == "in_context"]
UNTUNED += [row for row in ABLATION if row[3] == "finetuned"]
FREE = [row for row in UNTUNED if row[3] == "finetuned" or row[4] == "free"]


@pytest.mark.parametrize(
    ("notebook", "values", "words"),
    [
        ("03_cot_augmentation", {"writer": "remote:gpt-4"}, "distilled_writer: .*cannot be fine-tuned: name a"),
        ("03_cot_augmentation", {"writer": "remote:a"}, "such as `distilled_writer: SmolLM2-135M-Instruct`"),
        ("03_cot_augmentation", {"writer": "remote: "}, "writer: remote: must be followed by the model's name"),
        ("03_cot_augmentation", {"distilled_writer": "remote:a"}, "distilled_writer: a model behind an endpoint"),
        ("05_lambdamart_rrf", {"writer": "remote:gpt-4"}, "distilled_writer"),
        ("05_lambdamart_rrf", {"encoder": "remote:a"}, "encoder: a model behind an endpoint cannot"),
        ("07_planner", {"planner": "remote:a"}, "planner: a model behind an endpoint cannot be fine-tuned"),
        ("08_dsl_retrieval", {"generator": "remote:a"}, "generator: a model behind an endpoint cannot be fine-tuned"),
        ("09_dsl_ablation", {"generator": "remote:a"}, "generator: a model behind an endpoint cannot be fine-tuned"),
        (
            "09_dsl_ablation",
            {"untuned_generator": "remote:a", "ablation": UNTUNED},
            "ablation: remote:a cannot be held to a grammar, as pretrained_5_catalogue"
            ", .* must be: give these rows the decoding free or leave them out$",
        ),
        ("09_dsl_ablation", {"untuned_generator": "remote:a", "ablation": FREE, "prompt_window": 256}, "prompt_window"),
        ("03_cot_augmentation", {"spending_limit": 5.0}, "spending_limit needs remote_price_in or remote_price_out"),
        ("03_cot_augmentation", {"spending_limit": -1.0, "remote_price_in": 1.0}, "spending_limit"),
        ("03_cot_augmentation", {"remote_price_in": -1.0}, "remote_price_in"),
        ("09_dsl_ablation", {"remote_price_out": float("nan")}, "remote_price_out"),
        ("05_lambdamart_rrf", {"remote_concurrency": 0}, "remote_concurrency"),
    ],
)  # fmt: skip
def test_what_an_endpoint_cannot_do_is_said(notebook, values, words):
    with pytest.raises(ProfileError, match=words) as caught:
        check_parameters(NOTEBOOKS[notebook], values)
    assert "\n" not in str(caught.value)


def test_settings_of_an_endpoint():
    values = {"writer": "remote:owner/m", "distilled_writer": "SmolLM2-135M-Instruct", "spending_limit": 5}
    values |= {"remote_price_in": 1, "remote_price_out": 2.5, "remote_concurrency": 3}
    parameters = check_parameters(NOTEBOOKS["03_cot_augmentation"], values)
    assert parameters.remote == {"concurrency": 3, "price_in": 1, "price_out": 2.5, "limit": 5, "dry_run": False}
    assert (
        check_parameters(NOTEBOOKS["09_dsl_ablation"], {"untuned_generator": "remote:m", "ablation": FREE}).remote[
            "limit"
        ]
        is None
    )
