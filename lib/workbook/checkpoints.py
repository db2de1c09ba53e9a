"""The checkpoints of `lib.workbook.training`, by their earlier name."""

from lib.workbook.training import Checkpoints, copy_weights

__all__ = ["Checkpoints", "copy_weights"]
