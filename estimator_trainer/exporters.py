"""Exporters of SavedModels: the latest, the final and the best model. `registry` makes them known to gin.

They take the arguments of tf.estimator's exporters of the same names and save as those do. One whose
serving_input_receiver_fn is None gets that of the experiment from the run, as an attribute.
"""

import inspect
import json
import logging
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from estimator_trainer import files
from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError, nearest

_BEST_SUFFIX = '.json'  # beside the directory with the exports, in which there is nothing else
_NUMBERS = 'biuf'  # numpy's kinds
_log = logging.getLogger(__name__)


def export_saved_model(
    estimator: tf.estimator.Estimator, base: str, receiver_fn: Callable, checkpoint: str | None = None
) -> str:
    """Exports a checkpoint, the newest without one, into a new directory `base`/<seconds since 1970>; returns it."""
    return tf.compat.as_str(estimator.export_saved_model(base, receiver_fn, checkpoint_path=checkpoint))


class _Exporter(tf.estimator.Exporter):
    """What the three have in common.

    Attributes:
        serving_input_receiver_fn: may be set until the first export.
    """

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Callable | None,
        assets_extra: Mapping[str, str] | None,
        as_text: bool,
        exports_to_keep: int | None,
    ):
        self._where = type(self).__name__
        if not isinstance(name, str) or not name:
            raise UserError(f'{self._where}.name: expected the name of a directory, found {name!r}')
        if exports_to_keep is not None and (type(exports_to_keep) is not int or exports_to_keep < 1):
            raise UserError(
                f'{self._where}.exports_to_keep: expected a number of at least 1, or None; found {exports_to_keep!r}'
            )
        self._name = name
        self.serving_input_receiver_fn = serving_input_receiver_fn
        self._assets_extra = assets_extra
        self._as_text = as_text
        self._exports_to_keep = exports_to_keep

    @property
    def name(self) -> str:
        """Name of the directory of the exports."""
        return self._name

    def export(
        self,
        estimator: tf.estimator.Estimator,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> str | None:
        """Exports a checkpoint if it is one to export.

        Args:
            estimator: makes the model.
            export_path: directory in which the export's own directory is made.
            checkpoint_path: the checkpoint to export.
            eval_result: metric name -> value, from the evaluation of the checkpoint.
            is_the_final_export: whether training has ended.

        Returns:
            The directory of the export, or None where nothing was exported.

        Raises:
            UserError: serving_input_receiver_fn is missing or makes no receiver.
        """
        if self.serving_input_receiver_fn is None:
            raise UserError(f'{self._where}.serving_input_receiver_fn is not bound; expected e.g. @my_receiver_fn')
        exporter = tf.estimator.LatestExporter(
            self.name, self.serving_input_receiver_fn, self._assets_extra, self._as_text, self._exports_to_keep
        )
        return tf.compat.as_str(
            exporter.export(estimator, export_path, checkpoint_path, eval_result, is_the_final_export)
        )


class LatestExporter(_Exporter):
    """Exports after every evaluation and keeps the newest `exports_to_keep`; None keeps all."""

    def __init__(
        self,
        name: str = 'latest',
        serving_input_receiver_fn: Callable | None = None,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ):
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, exports_to_keep)


class FinalExporter(_Exporter):
    """Exports once, when training has ended; all exports of earlier runs are kept."""

    def __init__(
        self,
        name: str = 'final',
        serving_input_receiver_fn: Callable | None = None,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
    ):
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, exports_to_keep=None)

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        """Exports if training has ended; see `LatestExporter.export`."""
        if not is_the_final_export:
            return None
        return super().export(estimator, export_path, checkpoint_path, eval_result, is_the_final_export)


class BestExporter(_Exporter):
    """Exports whenever an evaluation is better than those of all exports before, this run's or an earlier one's.

    The best evaluation is kept in a file beside the directory of the exports, such as `export/best.json`.

    Args:
        name: name of the directory of the exports.
        serving_input_receiver_fn: see the module.
        event_file_pattern: ignored; tf.estimator's looks for the best evaluation in these files.
        compare_fn: takes `best_eval_result` and `current_eval_result`, metric name -> value, and returns whether the
            current one is better; takes the place of `metric` and `higher_is_better`.
        assets_extra: path in the export's assets.extra -> file to copy there.
        as_text: whether to write the SavedModel as text.
        exports_to_keep: number of exports to keep, the newest; None keeps all.
        metric: the metric that decides; one that is not finite is never the best.
        higher_is_better: whether the highest value is the best, or the lowest.
    """

    def __init__(
        self,
        name: str = 'best',
        serving_input_receiver_fn: Callable | None = None,
        event_file_pattern: str | None = None,
        compare_fn: Callable[[Mapping[str, Any], Mapping[str, Any]], bool] | None = None,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
        metric: str = 'loss',
        higher_is_better: bool = False,
    ):
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, exports_to_keep)
        del event_file_pattern
        if compare_fn is not None:
            _check_compare_fn(compare_fn)
            if (metric, higher_is_better) != ('loss', False):
                raise UserError('BestExporter: expected compare_fn, or metric and higher_is_better; found both')
        self._compare_fn = compare_fn
        self._metric = metric
        self._sign = 1 if higher_is_better else -1

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        """Exports if the evaluation is the best; see `LatestExporter.export`.

        Raises:
            UserError: the evaluation lacks the metric that decides.
        """
        best_file = export_path.rstrip('/') + _BEST_SUFFIX
        if not self._is_better(_read(best_file), eval_result):
            return None
        path = super().export(estimator, export_path, checkpoint_path, eval_result, is_the_final_export)
        # Afterwards: a run that is killed in between exports once more, instead of taking a lost export for the best.
        files.replace(best_file, json.dumps(_numbers(eval_result), indent=2) + '\n')
        return path

    def check(self, metrics: Collection[str]) -> None:
        """Checks, before anything is evaluated, that an evaluation with these metrics can decide.

        Raises:
            UserError: it lacks the metric.
        """
        if self._compare_fn is None and self._metric not in metrics:
            raise UserError(self._without_metric(metrics))

    def _without_metric(self, metrics: Collection[str]) -> str:
        return (
            f'BestExporter.metric: expected a number among the metrics of the evaluation, found {self._metric!r}; '
            f'there are {", ".join(map(repr, sorted(metrics)))}{nearest(self._metric, metrics)}'
        )

    def _is_better(self, best: Mapping[str, Any] | None, current: Mapping[str, Any]) -> bool:
        if self._compare_fn is not None:
            return best is None or bool(self._compare_fn(best_eval_result=best, current_eval_result=current))
        value = np.asarray(current.get(self._metric))
        if value.ndim or value.dtype.kind not in _NUMBERS:
            raise UserError(self._without_metric(current))
        if not np.isfinite(value):
            _log.warning('%s is %s: not exported as the best', self._metric, value)
            return False
        best_value = (best or {}).get(self._metric)
        is_finite = isinstance(best_value, int | float) and math.isfinite(best_value)
        return not is_finite or bool(self._sign * value > self._sign * best_value)


def _check_compare_fn(compare_fn: Callable) -> None:
    try:
        inspect.signature(compare_fn).bind(best_eval_result={}, current_eval_result={})
    except TypeError:
        raise UserError(
            'BestExporter.compare_fn: expected a function of best_eval_result and current_eval_result, '
            f'found {compare_fn!r}'
        ) from None


def _read(path: str) -> dict[str, Any] | None:
    """Returns the best evaluation so far, or None, which is said if there should be one."""
    if not tf.io.gfile.exists(path):
        return None
    try:
        best = json.loads(files.read(path))
        if isinstance(best, dict):
            return best
        reason = 'no dict'
    except (ValueError, tf.errors.OpError) as error:
        reason = str(error)
    _log.warning('%s cannot be read (%s): the next evaluation counts as the best', path, reason)
    return None


def _numbers(eval_result: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the metrics that are numbers or arrays of them; summaries, which are bytes, do not go into JSON."""
    arrays = {name: np.asarray(value) for name, value in eval_result.items()}
    return {name: array.tolist() for name, array in arrays.items() if array.dtype.kind in _NUMBERS}
