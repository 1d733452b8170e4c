"""`experiment`: the gin configurable that says what is trained on what, and for how long."""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gin

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError

SESSION_HOOK = tf.compat.v1.train.SessionRunHook
MODELS = ('model_fn', 'estimator', 'keras_model')
INPUT_FNS = ('train_input_fn', 'eval_input_fn', 'predict_input_fn')


@dataclasses.dataclass(frozen=True)
class Experiment:
    """What `experiment` was bound to; see there.

    Raises:
        UserError: a value of the wrong kind, or not exactly one model.
    """

    model_fn: Callable | None = None
    estimator: Callable | None = None
    keras_model: Callable | None = None
    train_input_fn: Callable | None = None
    eval_input_fn: Callable | None = None
    predict_input_fn: Callable | None = None
    max_steps: int | None = None
    eval_steps: int | None = None
    params: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    hooks: Sequence[Any] = ()
    exporters: Sequence[tf.estimator.Exporter] = ()
    serving_input_receiver_fn: Callable | Mapping[str, Any] | None = None
    serving_default: str | None = None
    warm_start_from: Any = None
    attach_update_ops: bool = False

    def __post_init__(self):
        self._check_functions()
        for name in ('max_steps', 'eval_steps'):
            steps = getattr(self, name)
            if steps is not None and (isinstance(steps, bool) or not isinstance(steps, int) or not 1 <= steps < 2**63):
                raise UserError(
                    f'experiment.{name}: expected a number of steps of at least 1, or None; found {steps!r}'
                )
        if not isinstance(self.params, Mapping):
            raise UserError(f'experiment.params: expected a dict, found {self.params!r}')
        for hook in self._list('hooks', '@MyHook()'):
            if not isinstance(hook, SESSION_HOOK) and not callable(hook):
                raise UserError(f'experiment.hooks: expected SessionRunHook objects, e.g. [@MyHook()], found {hook!r}')
        for exporter in self._list('exporters', '@FinalExporter()'):
            if not isinstance(exporter, tf.estimator.Exporter):
                raise UserError(
                    f'experiment.exporters: expected Exporter objects, e.g. [@FinalExporter()], found {exporter!r}'
                )
            if not re.fullmatch(r'[\w.-]*\w[\w.-]*', exporter.name):
                raise UserError(f'experiment.exporters: expected a name for a directory, found {exporter.name!r}')
        names = [exporter.name for exporter in self.exporters]
        if len(set(names)) < len(names):
            raise UserError(f'experiment.exporters: two have the same name; found {", ".join(names)}')
        self._check_warm_start()

    def _check_functions(self) -> None:
        for name in (*MODELS, *INPUT_FNS):
            value = getattr(self, name)
            if name in INPUT_FNS and isinstance(value, tf.data.Dataset | tf.compat.v1.data.Dataset):
                raise UserError(
                    f'experiment.{name}: found a Dataset; the input_fn must create the Dataset when it is called: '
                    'write the reference without ()'
                )
            if value is not None and not callable(value):
                raise UserError(f'experiment.{name}: expected a function, e.g. @my_{name}, found {value!r}')
        bound = [name for name in MODELS if getattr(self, name) is not None]
        if not bound:
            raise UserError(
                'experiment.model_fn is not bound; expected e.g. experiment.model_fn = @my_model_fn (or '
                'experiment.estimator, or experiment.keras_model)'
            )
        if len(bound) > 1:
            raise UserError(f'experiment: expected exactly one of {", ".join(MODELS)}; found {" and ".join(bound)}')

    def _list(self, name: str, example: str) -> Sequence[Any]:
        values = getattr(self, name)
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise UserError(f'experiment.{name}: expected a list, e.g. [{example}], found {values!r}')
        return values

    def _check_warm_start(self) -> None:
        value = self.warm_start_from
        if value is None or isinstance(value, tf.estimator.WarmStartSettings):
            return
        if not isinstance(value, str):
            raise UserError(
                f'experiment.warm_start_from: expected a checkpoint, a directory with one, or @WarmStartSettings(), '
                f'found {value!r}'
            )


@gin.configurable(module='estimator_trainer')
def experiment(
    model_fn: Callable | None = None,
    estimator: Callable | None = None,
    keras_model: Callable | None = None,
    train_input_fn: Callable | None = None,
    eval_input_fn: Callable | None = None,
    predict_input_fn: Callable | None = None,
    max_steps: int | None = None,
    eval_steps: int | None = None,
    params: Mapping[str, Any] | None = None,
    hooks: Sequence[Any] = (),
    exporters: Sequence[Any] = (),
    serving_input_receiver_fn: Callable | Mapping[str, Any] | None = None,
    serving_default: str | None = None,
    warm_start_from: Any = None,
    attach_update_ops: bool = False,
) -> Experiment:
    """Binds the parts of an experiment together. Exactly one of model_fn, estimator and keras_model is the model.

    Args:
        model_fn: an Estimator model_fn; takes `features` and any of `labels`, `mode`, `params`, `config`.
        estimator: a canned Estimator's class or a function that returns an Estimator; called with `config`.
        keras_model: a function that returns a compiled tf.keras model, which model_to_estimator makes an Estimator of.
        train_input_fn: returns a tf.data.Dataset (or tensors) of (features, labels) to train on; takes any of `mode`,
            `params`, `config`, `input_context`.
        eval_input_fn: the same, to evaluate on.
        predict_input_fn: the same, to predict from; labels are left out. None takes eval_input_fn.
        max_steps: the global_step at which training ends; None trains until the input ends.
        eval_steps: number of batches to evaluate; None evaluates until the input ends.
        params: passed to the functions that take `params`.
        hooks: tf.estimator.SessionRunHook objects for training, e.g. `[@MyHook()]`, or functions that take the
            Estimator and return one, e.g. `[@stop_if_no_decrease_hook]`.
        exporters: tf.estimator.Exporter objects, e.g. `[@BestExporter(), @FinalExporter()]`, called after evaluations.
        serving_input_receiver_fn: what an exported model is fed with: a function as for any Estimator, or a table
            {feature: (dtype, shape without the batch)}. None takes the features of the input_fns.
        serving_default: which of several export_outputs is the default signature.
        warm_start_from: a checkpoint or its directory, or tf.estimator.WarmStartSettings, for a new model_dir.
        attach_update_ops: whether a training step also runs the updates of moving averages that the model_fn forgot.

    Raises:
        UserError: a value of the wrong kind.
    """
    fields = dict(locals())
    if params is None:
        del fields['params']
    return Experiment(**fields)
