"""What only private attributes of tensorflow_estimator's objects tell, in one place."""

from typing import Any


def warm_start_settings(estimator: Any) -> Any:
    """Returns the tf.estimator.WarmStartSettings that an Estimator was made with, or None."""
    return estimator._warm_start_settings
