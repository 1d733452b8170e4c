"""What only private attributes of tensorflow_estimator's objects tell, in one place."""

from collections.abc import Callable
from typing import Any


def warm_start_settings(estimator: Any) -> Any:
    """Returns the tf.estimator.WarmStartSettings that an Estimator was made with, or None."""
    return estimator._warm_start_settings


def model_fn_of(estimator: Any) -> Callable:
    """Returns an Estimator's model_fn, to be called without the Estimator's own input_fn.

    A TPUEstimator takes such a call for an export, and leaves out params['batch_size'].
    """
    if not hasattr(estimator, '_is_input_fn_invoked'):
        return estimator.model_fn

    def model_fn(features, labels, mode, config):
        estimator._is_input_fn_invoked = mode != 'infer'
        return estimator.model_fn(features, labels, mode, config)

    return model_fn


def keep_server(strategy: Any) -> None:
    """Has the distribute coordinator use the server that this task has started, instead of one of its own."""
    strategy.extended._std_server_started = True


def withdraw_stop(run_context: Any) -> None:
    """Takes back what a hook has asked for with `run_context.request_stop()`."""
    run_context._stop_requested = False
