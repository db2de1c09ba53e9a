"""Answers of language models on disk, found by the content of what was asked.

The unit is a batch, because in bfloat16 an answer depends on the batch it was computed in. An entry is one file,
written to a temporary name and renamed: a killed writer leaves the cache as it was, and of two writers one wins whole.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lib.workbook.artifacts import atomic_path

log = logging.getLogger(__name__)

LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # half a character, which JSON can hold and UTF-8 cannot


def encodable(text: str) -> str:
    """A text with U+FFFD in place of each lone surrogate."""
    return LONE_SURROGATE.sub("\ufffd", text)


def batch_key(prompts: Sequence[str], model: str, dtype: str, settings: Mapping[str, Any]) -> str:
    """SHA-256 (64 hexadecimal digits) over everything that an answer depends on.

    Args:
        prompts: the batch, in the order in which it is computed.
        model: fingerprint of the model, an adapter included.
        dtype: data type of the computation.
        settings: JSON-like values; the order of names does not matter.
    """
    return _digest({"prompts": list(prompts), "model": model, "dtype": dtype, "settings": dict(settings)})


def _digest(content: Any) -> str:
    text = json.dumps(content, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class AnswerCache:
    """A folder of batches, `<folder>/<first two digits of the key>/<key>.json`."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)

    def path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"

    def load(self, key: str) -> dict[str, Any] | None:
        """The entry that was stored under `key`, or None if there is none or it is not what was written."""
        path = self.path(key)
        try:
            entry = json.loads(path.read_text(encoding="utf-8"))
            if entry["key"] == key and entry["sha256"] == _digest(entry["content"]):
                return entry["content"]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            pass
        log.warning("%s: a damaged cache entry, computed again", path.name)
        return None

    def store(self, key: str, content: Mapping[str, Any]) -> None:
        """Keep JSON-like `content` under `key`, in place of what was there.

        Raises:
            ArtifactError: the folder cannot be written or the disk is full; the cache stays as it was.
        """
        entry = {"key": key, "sha256": _digest(content), "content": content}
        with atomic_path(self.path(key)) as temporary:
            temporary.write_text(json.dumps(entry, ensure_ascii=True, indent=1) + "\n", encoding="utf-8")
