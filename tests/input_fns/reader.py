"""Reads what an input_fn returns, in a graph as Estimator reads it."""

import itertools
from typing import Any

from estimator_trainer.compat import tf


def read(input_fn: Any, graph_seed: int | None = None, batches: int | None = None, **arguments: Any) -> list[Any]:
    """Returns the batches of an input_fn.

    Args:
        input_fn: called with `arguments`.
        graph_seed: of the graph.
        batches: how many to read; None reads to the end.
        **arguments: of the input_fn.
    """
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(graph_seed)
        iterator = tf.compat.v1.data.make_initializable_iterator(input_fn(**arguments))
        session.run(iterator.initializer)
        following, found = iterator.get_next(), []
        for _ in range(batches) if batches else itertools.count():
            try:
                found.append(session.run(following))
            except tf.errors.OutOfRangeError:
                break
        return found
