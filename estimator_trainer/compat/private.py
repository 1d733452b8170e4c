"""What only private attributes of tensorflow_estimator's objects tell, in one place."""

from typing import Any


def warm_start_settings(estimator: Any) -> Any:
    """Returns the tf.estimator.WarmStartSettings that an Estimator was made with, or None."""
    return estimator._warm_start_settings


def keep_server(strategy: Any) -> None:
    """Has the distribute coordinator use the server that this task has started, instead of one of its own."""
    strategy.extended._std_server_started = True


def withdraw_stop(run_context: Any) -> None:
    """Takes back what a hook has asked for with `run_context.request_stop()`."""
    run_context._stop_requested = False
