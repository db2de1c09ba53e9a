"""Answers on disk: found by content, never believed when damaged, usable after a kill."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lib.generation.cache import AnswerCache, batch_key
from lib.workbook.artifacts import ArtifactError, remove_leftovers

CONTENT = {"answers": ["ja", "nein, Ölfarbe\n"], "tokens_out": 7}
KEY = batch_key(["a", "b"], "model", "float32", {"stop": []})
BASE = {"prompts": ["a", "b"], "model": "m", "dtype": "float32", "settings": {"x": 1, "y": [2]}}


@pytest.fixture
def cache(tmp_path):
    return AnswerCache(tmp_path / "answers")


def test_what_was_stored_is_found(cache):
    assert cache.load(KEY) is None
    cache.store(KEY, CONTENT)
    assert cache.load(KEY) == CONTENT
    cache.store(KEY, {"answers": []})
    assert cache.load(KEY) == {"answers": []}
    assert len(list(cache.folder.rglob("*.*"))) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"prompts": ["b", "a"]},
        {"prompts": ["a", "b "]},
        {"prompts": ["ab"]},
        {"model": "n"},
        {"dtype": "bfloat16"},
        {"settings": {"x": 2, "y": [2]}},
    ],
)
def test_the_key_depends_on_everything(change):
    assert batch_key(**BASE) != batch_key(**BASE | change)


def test_the_key_does_not_depend_on_the_order_of_settings():
    assert batch_key(**BASE) == batch_key(**BASE | {"settings": {"y": [2], "x": 1}})


def test_a_lone_surrogate_is_kept(cache):
    key = batch_key(["\ud800"], "m", "float32", {})
    cache.store(key, {"answers": ["\ud83d"]})
    assert cache.load(key) == {"answers": ["\ud83d"]}


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-30],
        lambda data: data.replace(b"nein", b"doch"),
        lambda data: b"\xff\xfe" + data,
        lambda data: b"[]",
        lambda data: b"[" * 100_000,
        lambda data: json.dumps(json.loads(data) | {"sha256": "0" * 64}).encode(),
    ],
    ids=["empty", "truncated", "edited", "bytes", "list", "deep", "checksum"],
)
def test_a_damaged_entry_is_not_believed(cache, damage, caplog):
    cache.store(KEY, CONTENT)
    path = cache.path(KEY)
    path.write_bytes(damage(path.read_bytes()))
    assert cache.load(KEY) is None
    assert "damaged" in caplog.text
    cache.store(KEY, CONTENT)
    assert cache.load(KEY) == CONTENT


def test_an_entry_under_another_key_is_not_believed(cache):
    cache.store(KEY, CONTENT)
    other = batch_key(["c"], "model", "float32", {})
    cache.path(other).parent.mkdir(parents=True, exist_ok=True)
    cache.path(KEY).rename(cache.path(other))
    assert cache.load(other) is None


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError, match="cannot be written"):
        AnswerCache(tmp_path / "file").store(KEY, CONTENT)


def test_a_full_disk_is_one_clear_error_and_keeps_the_entry(cache, no_file_above):
    cache.store(KEY, CONTENT)
    with no_file_above(1000), pytest.raises(ArtifactError, match=rf"{KEY}\.json: cannot be written"):
        cache.store(KEY, {"answers": ["x" * 10_000]})
    assert cache.load(KEY) == CONTENT
    assert len(list(cache.folder.rglob("*.*"))) == 1


def write_often(folder, text):
    for _ in range(60):
        AnswerCache(folder).store(KEY, {"answers": [text * 2000]})


def test_of_concurrent_writers_one_wins_whole(cache):
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=write_often, args=(cache.folder, text)) for text in "ab"]
    for writer in writers:
        writer.start()
    seen = []
    while any(writer.is_alive() for writer in writers):
        if cache.path(KEY).exists():
            seen.append(cache.load(KEY))
    for writer in writers:
        writer.join()
    assert seen
    assert all(entry in ({"answers": ["a" * 2000]}, {"answers": ["b" * 2000]}) for entry in seen)


WRITER = """
import sys
from lib.generation.cache import AnswerCache
cache = AnswerCache(sys.argv[1])
print("ready", flush=True)
while True:
    cache.store(sys.argv[2], {"answers": ["x" * 3_000_000]})
"""


def test_a_kill_in_a_write_leaves_a_usable_cache(cache):
    cache.store(KEY, CONTENT)
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", WRITER, str(cache.folder), KEY]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, cwd=root, env=os.environ | {"PYTHONPATH": str(root)}
    ) as child:
        child.stdout.readline()
        deadline = time.monotonic() + 10
        while not list(cache.folder.rglob("*.tmp")) and time.monotonic() < deadline:
            pass
        child.send_signal(signal.SIGKILL)
    assert cache.load(KEY) in (CONTENT, {"answers": ["x" * 3_000_000]})
    cache.store(KEY, CONTENT)
    assert cache.load(KEY) == CONTENT
    remove_leftovers(cache.folder)  # as each run of the workbook does
    assert [path.name for path in cache.folder.rglob("*.*")] == [cache.path(KEY).name]
