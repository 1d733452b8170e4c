"""What a run leaves of its configuration: config.gin to run it again, operative_config.gin to see what it used."""

import os

import gin.tf

from estimator_trainer import files


def write_config(model_dir: str, text: str) -> None:
    """Writes config.gin."""
    files.replace(os.path.join(model_dir, 'config.gin'), text)


def write_operative_config(model_dir: str) -> None:
    """Writes operative_config.gin, and the same for TensorBoard's text tab.

    To be called after the first step: only then hooks and model have bound all their values.
    """
    # Given no session, it writes at once, as of step 0.
    gin.tf.GinConfigSaverHook(model_dir, include_step_in_filename=False).after_create_session()
