"""Divides large variables over the parameter servers, where no strategy places them."""

import contextlib
import inspect
from typing import Any

import gin

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError

_v1 = tf.compat.v1
# A graph collection with the variables divided here. Its name is no string, so it is written to no file.
_DIVIDED = ('estimator_trainer', 'divided')


@gin.configurable(module='estimator_trainer')
def parameter_server(min_slice_size: int | None = 64 << 20) -> int | None:
    """Returns how large a part of a variable is at least that is divided over several parameter servers.

    Args:
        min_slice_size: bytes; None divides none.

    Raises:
        UserError: it is no such number.
    """
    size = min_slice_size
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
        raise UserError(
            f'parameter_server.min_slice_size: expected a number of bytes of at least 1, or None; found {size!r}'
        )
    return size


@contextlib.contextmanager
def divided_variables(config: tf.estimator.RunConfig):
    """Divides the large variables that the block makes by get_variable, in layers of v1, too.

    The scope's partitioner alone would fail for scalars, and make one part of each small variable: hence the getter.
    """
    size = parameter_server()  # in every case, so that its bindings are used, and checked
    by_estimator = isinstance(config, tf.estimator.RunConfig) and config.train_distribute is None
    count = config.num_ps_replicas if by_estimator else 0
    if size is None or count < 2:
        yield
        return
    partitioner = _v1.min_max_variable_partitioner(count, min_slice_size=size)

    def getter(getter, name, *arguments: Any, **named: Any):
        if named.get('partitioner') is not partitioner:
            return getter(name, *arguments, **named)
        if not _can_be_divided(named) or max(partitioner(**_shape_and_type(named))) < 2:
            return getter(name, *arguments, **(named | {'partitioner': None}))
        variable = getter(name, *arguments, **named)
        _v1.add_to_collection(_DIVIDED, variable)
        return variable

    scope = _v1.get_variable_scope()
    with _v1.variable_scope(scope, partitioner=partitioner, custom_getter=getter, auxiliary_name_scope=False):
        yield
    _check_lookups(_v1.get_default_graph())


def _shape_and_type(named: dict[str, Any]) -> dict[str, Any]:
    return {'shape': tf.TensorShape(named['shape']), 'dtype': tf.as_dtype(named.get('dtype') or tf.float32)}


def _can_be_divided(named: dict[str, Any]) -> bool:
    """Whether the shape is known, and the initializer makes values of any shape: not from a table or in a function."""
    shape, initializer = named.get('shape'), named.get('initializer')
    if shape is None or not tf.TensorShape(shape).is_fully_defined() or not tf.TensorShape(shape).rank:
        return False
    if initializer is None or inspect.isclass(initializer):
        return True
    return (
        callable(initializer)
        and not inspect.isroutine(initializer)
        and not getattr(getattr(initializer, 'value', 0), '__len__', None)
    )


def _check_lookups(graph: tf.Graph) -> None:
    """Raises a UserError where a lookup deals out the rows of a divided variable.

    `tf.compat.v1.nn.embedding_lookup` takes row i from part i % parts, unless it is told otherwise. While the variable
    is divided that is as good as any order; in an evaluation or export it is whole, and all rows differ.
    """
    parts = {part.op.name: variable for variable in graph.get_collection(_DIVIDED) for part in variable}
    for op in graph.get_operations() if parts else ():
        if op.type not in ('Gather', 'GatherV2', 'ResourceGather'):
            continue
        variable = parts.get(_source(op.inputs[0].op).name)
        dealt = _source(op.inputs[1].op)
        if variable is None or dealt.type != 'DynamicPartition':
            continue
        if _source(dealt.inputs[1].op).type == 'FloorMod':
            raise UserError(
                f"the model looks up {variable.name} with partition_strategy 'mod', which finds other rows where the "
                "variable is whole: expected tf.nn.embedding_lookup, or partition_strategy='div'; "
                'parameter_server.min_slice_size = None divides no variable'
            )


def _source(op: tf.Operation) -> tf.Operation:
    while op.type in ('Identity', 'Cast', 'ReadVariableOp', 'Reshape') and op.inputs:
        op = op.inputs[0].op
    return op
