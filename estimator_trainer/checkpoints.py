"""Checkpoints in model_dir: which is the newest, what step it is of, and whether it fits a model."""

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence

from estimator_trainer.compat import tf
from estimator_trainer.errors import TrainerError, UserError, nearest

# Key of the object graph in a checkpoint that tf.train.Checkpoint (Keras) has saved: its variables have other names.
_OBJECT_GRAPH = '_CHECKPOINTABLE_OBJECT_GRAPH'
_LISTED = 5  # of the names that do not fit, so many are told


@dataclasses.dataclass(frozen=True)
class Variable:
    """One variable of a graph.

    Attributes:
        name: as in a checkpoint, without `:0`.
        shape: of the whole variable, where it is one in parts; None for an unknown dimension.
        dtype: such as 'float32'.
        trainable: whether gradients are taken for it.
        parts: number of parts in which the graph has it.
    """

    name: str
    shape: tuple[int | None, ...]
    dtype: str
    trainable: bool
    parts: int = 1

    @property
    def size(self) -> int | None:
        """Number of values, None where the shape is not known."""
        size = 1
        for dimension in self.shape:
            if dimension is None:
                return None
            size *= dimension
        return size


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What of a checkpoint does not fit a model.

    Attributes:
        missing: names that the model has and the checkpoint has not.
        unexpected: names that only the checkpoint has: restoring leaves them out.
        differing: 'name: shape and dtype in the checkpoint, in the model'.
    """

    missing: Sequence[str]
    unexpected: Sequence[str]
    differing: Sequence[str]

    @property
    def fits(self) -> bool:
        """Whether the checkpoint can be restored into the model."""
        return not self.missing and not self.differing


def newest(model_dir: str) -> str | None:
    """Returns the path prefix of the newest checkpoint in model_dir, or None.

    Raises:
        TrainerError: there is one, but its name cannot be read; beginning anew would overwrite what was trained.
    """
    path = os.path.join(model_dir, 'checkpoint')
    checkpoint = tf.train.latest_checkpoint(model_dir)
    if checkpoint is None and tf.io.gfile.exists(path):
        raise TrainerError(f'{path} names no checkpoint that is there; correct it, or remove it to begin anew')
    return checkpoint


def find(given: str, model_dir: str, where: str) -> str:
    """Returns the path prefix of the checkpoint that `given` means.

    Args:
        given: a path prefix, one of its files, a name in `model_dir`, a step, or a directory (its newest checkpoint).
        model_dir: where names and steps are looked for.
        where: the flag or binding that `given` comes from.

    Raises:
        UserError: there is none.
    """
    name = re.sub(r'\.(index|meta|data-\d+-of-\d+)$', '', os.path.expanduser(given))
    if name.isdigit():
        name = f'model.ckpt-{name}'
    for path in (name, os.path.join(model_dir, name)):
        if tf.io.gfile.exists(f'{path}.index'):
            return path
    if tf.io.gfile.isdir(name) and (checkpoint := tf.train.latest_checkpoint(name)):
        return checkpoint
    there = tf.io.gfile.glob(os.path.join(model_dir, '*.index')) if tf.io.gfile.isdir(model_dir) else []
    names = sorted(os.path.basename(path).removesuffix('.index') for path in there)
    hint = nearest(os.path.basename(name), names) or (f'; {model_dir} has {", ".join(names)}' if names else '')
    raise UserError(f'{where}: no checkpoint {given!r}, neither as given nor in {model_dir}{hint}')


def step_of(checkpoint: str) -> int:
    """Returns a checkpoint's global_step.

    Raises:
        TrainerError: it cannot be read.
    """
    try:
        return int(tf.train.load_variable(checkpoint, tf.compat.v1.GraphKeys.GLOBAL_STEP))
    except (tf.errors.OpError, IndexError, ValueError) as error:  # which of them depends on what is broken
        raise TrainerError(f'cannot read global_step from {checkpoint}: {str(error).splitlines()[0]}') from None


def variables_of(graph: tf.Graph) -> list[Variable]:
    """Returns the variables that a checkpoint of this graph holds, in the order in which they were made."""
    keys = tf.compat.v1.GraphKeys
    trainable = {id(variable) for variable in graph.get_collection(keys.TRAINABLE_VARIABLES)}
    result = {}
    for variable in graph.get_collection(keys.GLOBAL_VARIABLES):
        with graph.as_default():
            proto = variable.to_proto()  # the public way to learn that a variable is a part of another
        part = proto.save_slice_info_def if proto.HasField('save_slice_info_def') else None
        name = part.full_name if part else variable.op.name
        shape = tuple(part.full_shape) if part else tuple(variable.shape.as_list())
        parts = result[name].parts + 1 if part and name in result else 1
        result[name] = Variable(name, shape, variable.dtype.base_dtype.name, id(variable) in trainable, parts)
    return list(result.values())


def remove(model_dir: str) -> None:
    """Removes all checkpoints, and the record that there are any."""
    state = tf.train.get_checkpoint_state(model_dir)
    if state is not None:
        for path in state.all_model_checkpoint_paths:
            tf.compat.v1.train.remove_checkpoint(path)
        tf.io.gfile.remove(os.path.join(model_dir, 'checkpoint'))


def compare(checkpoint: str, variables: Sequence[Variable]) -> Comparison | None:
    """Compares names, shapes and dtypes; None for a checkpoint in another format, which only restoring can tell of.

    Raises:
        TrainerError: the checkpoint cannot be read.
    """
    try:
        reader = tf.train.load_checkpoint(checkpoint)
    except (tf.errors.OpError, ValueError) as error:
        raise TrainerError(f'cannot read the checkpoint {checkpoint}: {str(error).splitlines()[0]}') from None
    shapes: Mapping[str, list[int]] = reader.get_variable_to_shape_map()
    dtypes = reader.get_variable_to_dtype_map()
    if _OBJECT_GRAPH in shapes:
        return None
    differing = []
    for variable in variables:
        if variable.name not in shapes or None in variable.shape:
            continue
        saved = (dtypes[variable.name].base_dtype.name, tuple(shapes[variable.name]))
        wanted = (variable.dtype, variable.shape)
        if saved != wanted:
            differing.append(
                f'{variable.name}: {_described(*saved)} in the checkpoint, {_described(*wanted)} in the model'
            )
    names = {variable.name for variable in variables}
    missing = [variable.name for variable in variables if variable.name not in shapes]
    return Comparison(missing, sorted(set(shapes) - names), differing)


def _described(dtype: str, shape: tuple[int, ...]) -> str:
    return f'{dtype}{list(shape)}'


def misfit(checkpoint: str, comparison: Comparison) -> str:
    """Returns the line that says what of a checkpoint does not fit the model: three short lists."""
    lists = (
        ('differing', comparison.differing),
        ('only in the model', comparison.missing),
        ('only in the checkpoint', comparison.unexpected),
    )
    parts = [
        f'{title}: {", ".join(names[:_LISTED])}{f" and {len(names) - _LISTED} more" * (len(names) > _LISTED)}'
        for title, names in lists
        if names
    ]
    return f'{checkpoint} is not a checkpoint of this model: {"; ".join(parts)}'


def why_not_restored(error: tf.errors.OpError) -> str | None:
    """Returns what in a checkpoint does not fit the model, or None for an error that is not about restoring one."""
    message = error.message
    if not isinstance(error, tf.errors.DataLossError) and 'Restoring from checkpoint failed' not in message:
        return None
    detail = re.search(
        r'Key \S+ not found in checkpoint|[^\n]*(?:shape|dtype)[^\n]*', message.split('Original error:')[-1]
    )
    return (detail[0] if detail else message).strip().splitlines()[0]
