"""Rows of every kind for tests of the ablation."""

from lib.workflows.ablation import PUBLISHED_ROWS

ABLATION = [
    *([*row, "in_context", "free", 3 if row[1] == 5 else 2] for row in PUBLISHED_ROWS),
    *(["pretrained", shots, "none", "in_context", "free", 3] for shots in (0, 1)),
    ["tst_affine", 5, "none", "in_context", "free", 3],
    ["random", 5, "none", "in_context", "free", 3],
    ["other", 5, "none", "in_context", "free", 3],
    ["oracle_shots", 5, "none", "in_context", "free", 3],
    ["pretrained", 5, "gold", "in_context", "free", 3],
    ["pretrained", 5, "none", "in_context", "catalogue", 3],
    ["tst", 5, "fd", "in_context", "catalogue", 3],
    ["pretrained", 0, "none", "finetuned", "free", 8],
    ["pretrained", 0, "none", "finetuned", "catalogue", 8],
    ["tst", 5, "none", "finetuned", "free", 4],
    ["pretrained", 5, "none", "untuned", "free", 3],
]
