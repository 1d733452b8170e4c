"""When an experiment's exporters are called: after each evaluation, and with the last word at every successful end."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from estimator_trainer import serving
from estimator_trainer.compat import tf
from estimator_trainer.errors import TrainerError
from estimator_trainer.exporters import FinalExporter
from estimator_trainer.rehearsal import Rehearsal

_FINAL = (FinalExporter, tf.estimator.FinalExporter)
_RECEIVER_FN = 'serving_input_receiver_fn'


class Exports:
    """Calls exporters and tells of what they wrote."""

    def __init__(
        self, exporters: Sequence[tf.estimator.Exporter], model_dir: str, on_export: Callable[[str, int, str], None]
    ):
        """Takes the exporters, where they export to, and what to call with name, step and path of an export."""
        self._exporters = exporters
        self._model_dir = model_dir
        self._on_export = on_export
        self._done: dict[str, int] = {}

    def path_of(self, exporter: tf.estimator.Exporter) -> str:
        """Returns the directory in which an exporter's exports are."""
        return os.path.join(self._model_dir, 'export', exporter.name)

    def give_receiver(self, receiver_fn: Callable) -> None:
        """Gives the serving_input_receiver_fn to those exporters that were bound without one."""
        for exporter in self._exporters:
            if getattr(exporter, _RECEIVER_FN, receiver_fn) is None:
                exporter.serving_input_receiver_fn = receiver_fn

    def rehearse(self, rehearsal: Rehearsal) -> None:
        """Builds the graph of each export, and gives the receiver to the exporters that were bound without one.

        Raises:
            UserError: an exporter's own serving_input_receiver_fn, or the experiment's, makes no receiver.
        """
        # tf.estimator's exporters keep theirs to themselves.
        bound = [exporter.serving_input_receiver_fn for exporter in self._exporters if hasattr(exporter, _RECEIVER_FN)]
        for own in filter(None, bound):
            rehearsal.export_from(serving.receiver_fn(own, None))
        if None in bound:
            rehearsal.export()
            self.give_receiver(rehearsal.receiver_fn())

    def after_evaluation(
        self,
        estimator: tf.estimator.Estimator,
        checkpoint: str,
        step: int,
        metrics: Mapping[str, Any],
        final: bool,
    ) -> None:
        """Calls the exporters with the result of an evaluation.

        A checkpoint can come twice, when training turns out to have ended with it; what was exported then is not
        exported again.

        Raises:
            TrainerError: training has ended and there is no final export.
        """
        for exporter in self._exporters:
            if self._done.get(exporter.name) != step:
                self._export(exporter, estimator, checkpoint, step, metrics, final)

    def final(self, estimator: tf.estimator.Estimator, checkpoint: str, step: int) -> None:
        """Calls the exporters that export once, at the end, where nothing is evaluated.

        Raises:
            TrainerError: there is no final export.
        """
        for exporter in self.final_exporters:
            self._export(exporter, estimator, checkpoint, step, None, True)

    @property
    def final_exporters(self) -> list[tf.estimator.Exporter]:
        """The exporters that export once, at the end."""
        return [exporter for exporter in self._exporters if isinstance(exporter, _FINAL)]

    def _export(
        self,
        exporter: tf.estimator.Exporter,
        estimator: tf.estimator.Estimator,
        checkpoint: str,
        step: int,
        metrics: Mapping[str, Any] | None,
        final: bool,
    ) -> None:
        path = exporter.export(estimator, self.path_of(exporter), checkpoint, metrics, final)
        if path:
            self._done[exporter.name] = step
            self._on_export(exporter.name, step, tf.compat.as_str(path))
        elif final and isinstance(exporter, _FINAL):
            raise TrainerError(f'final export not produced by {type(exporter).__name__} {exporter.name!r}')
