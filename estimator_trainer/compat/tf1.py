"""The level *tf1*: the program sees what TensorFlow 1 showed it."""

import pkgutil

import tensorflow as tf

from estimator_trainer.compat import contrib, moved, views


def install() -> None:
    """Switches v2 behaviour off and gives programs the v1 API and tf.contrib, beside the names of level *program*."""
    # Both choose their Keras when they are first used, and must do so while v2 behaviour is on.
    _ = tf.keras.layers, tf.compat.v1.layers.Dense
    pkgutil.resolve_name('tensorflow_estimator.python.estimator.keras_lib')
    # It warns of resource variables, and TensorFlow 1 had none.
    verbosity = tf.compat.v1.logging.get_verbosity()
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    tf.compat.v1.disable_v2_behavior()
    tf.compat.v1.logging.set_verbosity(verbosity)
    views.Views(
        moved.MOVED | contrib.NAMES,
        {name: gone for name, gone in moved.GONE.items() if name != contrib.ROOT},
        stand_ins={contrib.ROOT: contrib.StandIn},
        first={'tensorflow': 'tensorflow.compat.v1'},
    ).install()
