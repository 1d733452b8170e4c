"""TensorFlow with `tf.estimator`, on every TensorFlow from 2.15 to 2.21.

Importing this package installs the bridge and imports TensorFlow; the framework and whoever wants the same TensorFlow
write `from estimator_trainer.compat import tf`. It is the only package that tests a version or touches
`tensorflow.python.*` and `tensorflow_estimator.python.*`:

* `requirements` finds what is installed and says what does not fit, before TensorFlow is imported;
* `bridge` puts `tf.estimator` back where it is missing, and changes nothing where it is not;
* `aliases` gives gone modules their names back, `gone` stands in for those that nothing replaces;
* `keras_seeds` lets tf-keras draw seeds on Python 3.12 and later;
* `estimator_training` runs an Estimator under a distribution strategy, as the module of that name did;
* `exact_evaluation` is the Estimator whose evaluation under a strategy counts every example once;
* `doctor` tells what is installed and what mends it;
* `internals` is the list of private symbols that the framework needs.
"""

import sys

from estimator_trainer.compat import bridge

# `-m` imports this package before its `__main__`: there the runner installs the bridge, since it says in one line why
# that cannot be done, and the doctor does without. While `-m` imports a package, its name is the last argument that
# Python took for itself.
_for_the_runner = sys.argv[:1] == ['-m'] and sys.orig_argv[-len(sys.argv)].removeprefix('-m') == __name__
if not _for_the_runner:
    tf = bridge.install()

__all__ = ['tf']
