"""The training runs that notebook 08 compares: shipped parts, at the papers' sizes, where they fit this world, and what
is trained here, at the profile's sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from lib.generation.finetune import Training, adapter_for, pairs_hash
from lib.generation.local import fingerprint
from lib.generation.models import locate
from lib.retrieval.dense import load_encoder
from lib.retrieval.tuning import Tuning, encoder_for, weights_hash
from lib.workbook.artifacts import ROOT
from lib.workbook.machine import cores
from lib.workbook.parameters.dsl_retrieval import DSLRetrieval
from lib.workbook.parts import FOLDER, Adapter, adapter_of, shipped
from lib.workflows.trained_parts import ROWS, World, mined_from, name_of


class Run(NamedTuple):
    """A training run: what of, and on how many pairs."""

    kind: str  # nl2dsl, tst, tst_affine or tst_shuffled
    pairs: int

    @property
    def part(self) -> str:
        """What it is called where it is shipped, or as a folder."""
        return name_of(*self)


@dataclass(frozen=True)
class Trainer:
    """Takes shipped parts, and trains here what is missing.

    Attributes:
        world: what is learned from.
        output: folder of what is trained here.
        settings: of what is trained here, by kind.
        epochs: passes over scored pairs.
        machine: threads, progress, and for a language model quantization and processes.
        root: the project's folder.
        made: rows that were made already: plain and affine tuning learn from the same.
    """

    world: World
    output: Path
    settings: dict[str, Training | Tuning]
    epochs: int
    machine: dict
    root: Path = ROOT
    made: dict = field(default_factory=dict, repr=False, compare=False)

    def runs(self, kind: str, shipped_pairs: int, pairs: int, fewer: Sequence[int] = ()) -> dict[Run, Adapter]:
        """The runs of one kind: fewer pairs first, the largest number last.

        Args:
            shipped_pairs: of the shipped parts; 0 takes none.
            pairs: trained on here where no shipped part fits.
            fewer: other numbers of pairs, whose shipped parts are taken where they fit and the largest is one; the
                rest is trained here. Those that are not fewer are left out.

        Returns:
            adapters; each says why a shipped part was not taken, where one was looked for in vain.
        """
        found, refused = self.shipped(kind, shipped_pairs) if shipped_pairs else (None, "")
        most = shipped_pairs if found else min(pairs, self.available(kind))
        runs: dict[Run, Adapter] = {}
        for size in sorted({size for size in fewer if size < most}):
            small, reason = self.shipped(kind, size, expected=False) if found else (None, "")
            runs[Run(kind, size)] = small or replace(self.trained(Run(kind, size)), reason=reason)
        runs[Run(kind, most)] = found or replace(self.trained(Run(kind, most)), reason=refused)
        return runs

    def shipped(self, kind: str, pairs: int, expected: bool = True) -> tuple[Adapter | None, str]:
        """The shipped part where it fits, else why not.

        Args:
            expected: whether a missing part is worth a word, too.
        """
        run = Run(kind, pairs)
        if self.available(kind) < pairs:
            some = f"this world has {self.available(kind):,} of its {pairs:,} pairs"
            return None, f"The shipped part {run.part} is not used: {some}."
        part = shipped(run.part, *self.hashes(kind, pairs), root=self.root)
        if part.folder:
            return adapter_of(part.folder, part.record, from_project=True), ""
        return None, part.reason if expected or (self.root / FOLDER / run.part).is_dir() else ""

    def available(self, kind: str) -> int:
        """How many pairs this world has to learn from."""
        return int((self.world.flows["split"] == "training").sum()) if kind == "nl2dsl" else len(self.world.mined)

    def rows(self, kind: str, pairs: int) -> pd.DataFrame:
        """What a run learns from in one epoch."""
        made_by = ROWS[kind]
        if (made_by, pairs) not in self.made:
            self.made[made_by, pairs] = made_by(self.world, pairs)
        return self.made[made_by, pairs]

    def hashes(self, kind: str, pairs: int) -> tuple[str, str]:
        """Of the base model and of the training pairs, as a shipped part has them on record."""
        if kind != "nl2dsl":
            encoder = load_encoder(locate(self.world.encoder))
            return weights_hash(encoder), mined_from(self.world, name_of(kind, pairs))
        rows = self.rows(kind, pairs)
        model = fingerprint(locate(self.world.generator), quantization=self.machine.get("quantization", "none"))
        return model, pairs_hash(rows["prompt"].tolist(), rows["target"].tolist())

    def trained(self, run: Run) -> Adapter:
        """An adapter trained here, or earlier by an equal run."""
        rows, settings = self.rows(run.kind, run.pairs), self.settings[run.kind]
        output = self.output / run.part
        if run.kind == "nl2dsl":
            assert isinstance(settings, Training)
            texts = rows["prompt"].tolist(), rows["target"].tolist()
            return adapter_for("", self.world.generator, *texts, output, settings, **self.machine)
        assert isinstance(settings, Tuning)
        rows = pd.concat([rows] * self.epochs, ignore_index=True)
        own = {name: self.machine[name] for name in ("threads", "progress") if name in self.machine}
        return encoder_for("", locate(self.world.encoder), rows, output, settings, **own)


def runs_frame(runs: dict[Run, Adapter]) -> pd.DataFrame:
    """The records of training runs: columns name (the kind), pairs, curve, tokens, seconds, device, shipped,
    reason, folder."""
    wanted = ("curve", "tokens", "seconds", "device", "shipped", "reason", "folder")
    rows = [
        {"name": run.kind, "pairs": run.pairs, **{key: getattr(made, key) for key in wanted}}
        for run, made in runs.items()
    ]
    return pd.DataFrame(rows)


def trainer_of(
    parameters: DSLRetrieval,
    flows: pd.DataFrame,
    mined: pd.DataFrame,
    threshold: float,
    output: Path,
    progress: bool = False,
) -> Trainer:
    """The trainer of a profile: its settings, on its flows and mined pairs (see `World`, `threshold` too); `output` as
    for `Trainer`."""
    plain = Tuning(learning_rate=parameters.tst_learning_rate, batch_size=parameters.tst_batch_size)
    writer = Training(
        learning_rate=parameters.dsl_learning_rate, epochs=parameters.dsl_epochs, batch_size=parameters.dsl_batch_size
    )
    return Trainer(
        World(flows, mined, parameters.workflow_encoder, parameters.generator, parameters.seed, threshold=threshold),
        output,
        {"tst": plain, "tst_affine": replace(plain, loss="affine"), "tst_shuffled": plain, "nl2dsl": writer},
        parameters.tst_epochs,
        {
            "threads": cores(),
            "progress": progress,
            "quantization": parameters.quantization,
            "processes": parameters.training_processes,
        },
    )
