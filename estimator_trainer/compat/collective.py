"""An Estimator for training tasks that step together, in which only the hooks it is given save and write summaries."""

import copy
from typing import Any

from estimator_trainer.compat import exact_evaluation


class Estimator(exact_evaluation.Estimator):
    """See this module.

    The hooks that TensorFlow adds by itself look at a step that need not be the same in all tasks, and those of workers
    leave directories in model_dir.
    """

    def _train_with_estimator_spec_distributed(self, estimator_spec: Any, worker_hooks: Any, *listeners: Any) -> Any:
        config = self._config  # the model_fn, called before this, has seen it as it is
        self._config = copy.copy(config)
        self._config._save_checkpoints_secs = self._config._save_checkpoints_steps = None
        self._config._save_summary_steps = None
        if not config.is_chief:
            self._config._log_step_count_steps = None
        try:
            return super()._train_with_estimator_spec_distributed(estimator_spec, worker_hooks, *listeners)
        finally:
            self._config = config
