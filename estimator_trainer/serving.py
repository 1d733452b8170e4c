"""What an exported model is fed with and what it answers: serving_input_receiver_fn and export_outputs."""

import functools
import inspect
import os
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError, nearest
from estimator_trainer.feature_description import feature_description
from estimator_trainer.gin_config import first_line

_BINDING = 'experiment.serving_input_receiver_fn'
_EXPECTED = 'tf.estimator.export.ServingInputReceiver(features, receiver_tensors)'
_DEFAULT = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
# The names of tf.DType that a table of features is likely to hold.
_DTYPES = ('bool', 'float16', 'float32', 'float64', 'int8', 'int16', 'int32', 'int64', 'string', 'uint8')


def receiver_fn(bound: Any, features: Any) -> Callable[[], tf.estimator.export.ServingInputReceiver]:
    """Returns the serving_input_receiver_fn of an experiment.

    One that is made here answers serialized tf.Example protos (receiver tensor `examples`, string [batch]) under the
    model's own signature names and the features themselves under `raw:<name>`. tf.Example holds int64, float32 and
    bytes: features of other dtypes are cast from these (a float64 feature has the precision of float32 there). A
    feature that `feature_description` gives a default may be left out of a tf.Example.

    Args:
        bound: a function, checked when it is called; a table {feature name: (dtype, shape)}, `shape` without batch
            dimension, a dtype alone for one value an example; None to derive the table from `features`.
        features: the features that the input_fn returns: a tf.TensorSpec, tf.SparseTensorSpec or tf.RaggedTensorSpec,
            or a dict of them, with batch dimension. A single one is the feature 'feature' of a tf.Example.

    Raises:
        UserError: `bound` is none of the above, or the features have no form as tf.Example.
    """
    if callable(bound):
        return _checked(bound)
    if hasattr(bound, 'receiver_tensors'):
        raise UserError(f'{_BINDING}: the function has been called; expected @my_function instead of @my_function()')
    specs = _specs(bound, features)
    single = isinstance(features, tf.TypeSpec) and len(specs) == 1
    described = getattr(feature_description(), 'features', {})
    parsing = {
        name: described[name].parsing if name in described and described[name].fits(spec) else _parsing(name, spec)
        for name, spec in specs.items()
    }

    def serving_input_receiver_fn():
        examples = tf.compat.v1.placeholder(tf.string, [None], 'examples')
        parsed = tf.io.parse_example(examples, parsing)
        raw = {name: tf.cast(parsed[name], spec.dtype) for name, spec in specs.items()}
        # Not the tensors that are fed: one that the model_fn predicts as it is would seem to depend on `examples`, and
        # the raw signature would be left out.
        features = {name: tf.identity(tensor) for name, tensor in raw.items()}
        if single:
            (tensor,) = features.values()
            return tf.estimator.export.TensorServingInputReceiver(tensor, {'examples': examples}, {'raw': raw})
        return tf.estimator.export.ServingInputReceiver(features, {'examples': examples}, {'raw': raw})

    return serving_input_receiver_fn


def _specs(bound: Any, features: Any) -> Mapping[str, Any]:
    """Returns feature name -> spec with batch dimension, from a table or from the features of the input_fn."""
    if isinstance(bound, Mapping):
        specs = {name: _table_entry(name, entry) for name, entry in bound.items()}
    elif bound is None:
        specs = {'feature': features} if isinstance(features, tf.TypeSpec) else features
    else:
        raise UserError(
            f"{_BINDING}: expected a function or a table such as {{'x': ('float32', [3])}}, found {bound!r}"
        )
    if not isinstance(specs, Mapping) or not specs:
        raise UserError(_underivable(f'features that are {_kind(specs)}', specs))
    return specs


def _table_entry(name: str, entry: Any) -> tf.TensorSpec:
    dtype, shape = entry if isinstance(entry, tuple | list) and len(entry) == 2 else (entry, ())
    where = f'{_BINDING}: feature {name!r}'
    if not isinstance(dtype, str | type | tf.DType):
        raise UserError(f"{where}: expected (dtype, shape), e.g. ('float32', [3]), found {entry!r}")
    try:
        dtype = tf.as_dtype(dtype)
    except TypeError:
        raise UserError(f'{where}: no dtype {dtype!r}{nearest(str(dtype), _DTYPES)}') from None
    try:
        return tf.TensorSpec(tf.TensorShape([None]).concatenate(tf.TensorShape(shape)), dtype)
    except (TypeError, ValueError):
        raise UserError(f'{where}: expected a shape without batch dimension, e.g. [3], found {shape!r}') from None


def _parsing(name: str, spec: Any) -> Any:
    """Returns how tf.io.parse_example reads a feature, whatever the batch size of its spec."""
    dtype, shape = getattr(spec, 'dtype', tf.variant), getattr(spec, 'shape', None)
    stored = tf.float32 if dtype.is_floating else tf.int64 if dtype.is_integer or dtype.is_bool else dtype
    if isinstance(name, str) and stored in (tf.float32, tf.int64, tf.string):
        if isinstance(spec, tf.SparseTensorSpec):
            # tf.Example has the values of a row, not their columns: in a known width these would matter.
            if shape.rank == 2 and shape[1] is None:
                return tf.io.VarLenFeature(stored)
        elif isinstance(spec, tf.RaggedTensorSpec):
            if spec.ragged_rank == 1 and shape.rank == 2:
                return tf.io.RaggedFeature(stored, row_splits_dtype=spec.row_splits_dtype)
        elif shape.rank and shape[1:].is_fully_defined():
            return tf.io.FixedLenFeature(shape[1:], stored)
        elif shape.rank and shape[2:].is_fully_defined():  # Padded to the longest of the batch, as padded_batch does.
            return tf.io.FixedLenSequenceFeature(shape[2:], stored, allow_missing=True)
    raise UserError(_underivable(f'feature {name!r}', spec))


def _underivable(what: str, spec: Any) -> str:
    return (
        f'{_BINDING}: {what} cannot be read from tf.Example: {spec!r}; bind a function that returns {_EXPECTED}, or a '
        "table such as {'x': ('float32', [3])}"
    )


def _checked(function: Callable) -> Callable:
    """Returns the user's function, with errors that name it."""

    @functools.wraps(function)
    def serving_input_receiver_fn():
        where = f'serving_input_receiver_fn {_place(function)}'
        try:
            receiver = function()
        except (AttributeError, TypeError, ValueError) as error:
            reason = ' '.join(first_line(error).split())
            raise UserError(f'{where} failed: {reason}; it takes no arguments and returns {_EXPECTED}') from error
        # Estimator asks for no more than these, so a class of the user's own will do.
        if not hasattr(receiver, 'features') or not hasattr(receiver, 'receiver_tensors'):
            raise UserError(f'{where} returned {_kind(receiver)}; expected {_EXPECTED}')
        return receiver

    return serving_input_receiver_fn


def _place(function: Callable) -> str:
    """Returns `my_fn (my_model.py:12)`."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    code = getattr(function, '__code__', None) or getattr(type(function).__call__, '__code__', None)
    place = f' ({os.path.basename(code.co_filename)}:{code.co_firstlineno})' if code else ''
    return getattr(function, '__name__', type(function).__name__) + place


def _kind(value: Any) -> str:
    if value is None:
        return 'None'
    if type(value) is tuple:
        return f'a {len(value)}-tuple'
    return 'a tensor' if tf.is_tensor(value) else f'a {type(value).__name__}'


def check_export_outputs(spec: tf.estimator.EstimatorSpec, default: str | None = None) -> tf.estimator.EstimatorSpec:
    """Checks the export_outputs of a PREDICT spec; without any, the predictions are exported.

    Args:
        spec: what model_fn returned for mode PREDICT, or what `refused_spec` found.
        default: the key of the output that is also to be the signature 'serving_default'.

    Returns:
        `spec`, with `default` as 'serving_default' where it is given.

    Raises:
        UserError: one of the outputs is no ExportOutput, none is the default, or `default` is none of them.
    """
    mistake = _mistake(spec.export_outputs, default)
    if mistake:
        raise UserError(mistake)
    if default is None or default == _DEFAULT:
        return spec
    return spec._replace(export_outputs={**spec.export_outputs, _DEFAULT: spec.export_outputs[default]})


def refused_spec(error: BaseException) -> tf.estimator.EstimatorSpec | None:
    """Returns the EstimatorSpec whose constructor raised `error` in a model_fn, unchecked; None for another error.

    The constructor refuses several outputs without a default before anybody can name one.
    """
    spec_class = tf.estimator.EstimatorSpec
    constructor = inspect.unwrap(spec_class.__new__).__code__
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_code is constructor:
            return spec_class._make(map(frame.f_locals.get, spec_class._fields))
    return None


def explain(error: BaseException) -> str | None:
    """Returns what is wrong with the export_outputs that EstimatorSpec refused, or None for another error."""
    spec = refused_spec(error)
    return _mistake(spec.export_outputs) if spec and spec.mode == tf.estimator.ModeKeys.PREDICT else None


def _mistake(outputs: Any, default: str | None = None) -> str | None:
    where = "mode 'infer' (PREDICT) of model_fn: export_outputs"
    if outputs is not None and not isinstance(outputs, dict):
        return f'{where} is {_kind(outputs)}; expected a dict of tf.estimator.export.PredictOutput'
    outputs = {_DEFAULT: None} if outputs is None else outputs
    for key, output in outputs.items():
        if output is not None and not isinstance(output, tf.estimator.export.ExportOutput):
            return f'{where}[{key!r}] is {_kind(output)}; expected tf.estimator.export.PredictOutput or its like'
    if default is not None and default not in outputs:
        return f'{where} has no {default!r}, only {", ".join(map(repr, outputs))}{nearest(default, outputs)}'
    if default is None and len(outputs) > 1 and _DEFAULT not in outputs:
        return f'{where} has {", ".join(map(repr, outputs))}; expected one of them under the key {_DEFAULT!r}'
    return None
