"""`experiment`: the gin configurable that says what is trained on what, and for how long."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gin

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError

SESSION_HOOK = tf.compat.v1.train.SessionRunHook


@dataclasses.dataclass(frozen=True)
class Experiment:
    """What `experiment` was bound to, checked; see there."""

    model_fn: Callable
    train_input_fn: Callable | None
    eval_input_fn: Callable | None
    max_steps: int | None
    eval_steps: int | None
    params: Mapping[str, Any]
    hooks: Sequence[Any]


@gin.configurable(module='estimator_trainer')
def experiment(
    model_fn: Callable | None = None,
    train_input_fn: Callable | None = None,
    eval_input_fn: Callable | None = None,
    max_steps: int | None = None,
    eval_steps: int | None = None,
    params: Mapping[str, Any] | None = None,
    hooks: Sequence[Any] = (),
) -> Experiment:
    """Binds the parts of an experiment together.

    Args:
        model_fn: an Estimator model_fn; takes `features` and any of `labels`, `mode`, `params`, `config`.
        train_input_fn: returns a tf.data.Dataset (or tensors) of (features, labels) to train on; takes any of `mode`,
            `params`, `config`, `input_context`.
        eval_input_fn: the same, to evaluate on.
        max_steps: the global_step at which training ends; None trains until the input ends.
        eval_steps: number of batches to evaluate; None evaluates until the input ends.
        params: passed to the functions that take `params`.
        hooks: tf.estimator.SessionRunHook objects for training, e.g. `[@MyHook()]`, or functions that take the
            Estimator and return one, e.g. `[@stop_early]`.

    Raises:
        UserError: a value of the wrong kind.
    """
    for name, function in (
        ('model_fn', model_fn),
        ('train_input_fn', train_input_fn),
        ('eval_input_fn', eval_input_fn),
    ):
        if function is not None and not callable(function):
            raise UserError(f'experiment.{name}: expected a function, e.g. @my_{name}, found {function!r}')
    if model_fn is None:
        raise UserError('experiment.model_fn is not bound; expected e.g. experiment.model_fn = @my_model_fn')
    for name, steps in (('max_steps', max_steps), ('eval_steps', eval_steps)):
        if steps is not None and (isinstance(steps, bool) or not isinstance(steps, int) or not 1 <= steps < 2**63):
            raise UserError(f'experiment.{name}: expected a number of steps of at least 1, or None; found {steps!r}')
    if params is not None and not isinstance(params, Mapping):
        raise UserError(f'experiment.params: expected a dict, found {params!r}')
    if isinstance(hooks, str) or not isinstance(hooks, Sequence):
        raise UserError(f'experiment.hooks: expected a list, e.g. [@MyHook()], found {hooks!r}')
    for hook in hooks:
        if not isinstance(hook, SESSION_HOOK) and not callable(hook):
            raise UserError(f'experiment.hooks: expected SessionRunHook objects, e.g. [@MyHook()], found {hook!r}')
    return Experiment(model_fn, train_input_fn, eval_input_fn, max_steps, eval_steps, dict(params or {}), tuple(hooks))
