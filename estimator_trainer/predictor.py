"""Answers calls from a SavedModel that is loaded once; importing this module imports no TensorFlow."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from estimator_trainer.errors import UserError, nearest

# Raw features first; a model of another origin may have its default only.
_PREFERRED = ('raw:serving_default', 'raw:predict', 'serving_default')


class Predictor:
    """A loaded SavedModel: `Predictor('runs/mine/export/best')({'x': [[1.0, 2.0]]})`.

    Any SavedModel will do, of Estimator or not. Calls may come from several threads.

    Attributes:
        export_dir: the directory that was loaded.
        signature: name of the signature that is called.
    """

    def __init__(self, export_dir: str, signature: str | None = None):
        """Loads a SavedModel.

        Args:
            export_dir: the directory of a SavedModel, or one that holds them under numbers: the highest is taken.
            signature: name of a signature; by default the first there is of 'raw:serving_default', 'raw:predict' and
                'serving_default'.

        Raises:
            UserError: there is no SavedModel, or it has no such signature.
        """
        from estimator_trainer.compat import tf

        self.export_dir = _find(os.path.expanduser(export_dir))
        # A session, unlike tf.saved_model.load, also works in a program that has switched eager execution off.
        self._session = tf.compat.v1.Session(graph=tf.Graph())
        with self._session.graph.as_default():
            model = tf.compat.v1.saved_model.load(self._session, [tf.saved_model.SERVING], self.export_dir)
        signatures = model.signature_def
        self.signature = signature or next((name for name in _PREFERRED if name in signatures), '')
        if self.signature not in signatures:
            raise UserError(
                f'{self.export_dir} has no signature {signature or " or ".join(_PREFERRED)!r}; '
                f'there are {", ".join(map(repr, sorted(signatures)))}{nearest(self.signature, signatures)}'
            )
        inputs, outputs = signatures[self.signature].inputs, signatures[self.signature].outputs
        self._inputs = {name: self._tensor(info) for name, info in inputs.items()}
        self._call = self._session.make_callable(
            {name: self._tensor(info) for name, info in outputs.items()},
            tf.nest.flatten(list(self._inputs.values()), expand_composites=True),
        )

    def _tensor(self, info: Any) -> Any:
        from estimator_trainer.compat import tf

        return tf.compat.v1.saved_model.get_tensor_from_tensor_info(info, self._session.graph)

    def __call__(self, features: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Returns the model's answer for a batch of examples.

        Args:
            features: an array or (nested) list [batch, ...] for each input of the signature, converted to its dtype
                where that loses nothing but precision; a list of rows for a sparse or ragged one. `{'examples':
                [...]}`, serialized tf.Example protos, for a signature that takes these.

        Returns:
            Output name -> array [batch, ...].

        Raises:
            UserError: a feature is missing, unknown, or not of the signature's dtype and shape.
        """
        where = f'signature {self.signature!r} of {self.export_dir}'
        for name in features:
            if name not in self._inputs:
                raise UserError(f'{where} has no feature {name!r}{nearest(name, self._inputs)}')
        missing = [name for name in self._inputs if name not in features]
        if missing:
            raise UserError(f'{where}: missing {", ".join(map(repr, missing))}; found {sorted(features)}')
        fed = []
        for name, tensor in self._inputs.items():
            try:
                fed += _components(features[name], tensor)
            except (TypeError, ValueError, OverflowError) as error:
                raise UserError(f'{where}, feature {name!r}: {error}') from None
        return self._call(*fed)

    def close(self) -> None:
        """Gives the model's memory back; no call may follow."""
        self._session.close()

    def __enter__(self) -> 'Predictor':
        return self

    def __exit__(self, *exc_info: Any) -> None:
        self.close()


def _find(export_dir: str) -> str:
    """Returns `export_dir`, or its subdirectory of the highest number, whichever is a SavedModel."""
    from estimator_trainer.compat import tf

    def is_saved_model(path):
        return any(tf.io.gfile.exists(os.path.join(path, name)) for name in ('saved_model.pb', 'saved_model.pbtxt'))

    if is_saved_model(export_dir):
        return export_dir
    names = tf.io.gfile.listdir(export_dir) if tf.io.gfile.isdir(export_dir) else []
    # Names of object stores end in "/". An export that is not complete is called temp-<number>.
    numbers = sorted((name.rstrip('/') for name in names if name.rstrip('/').isdigit()), key=int, reverse=True)
    for path in (os.path.join(export_dir, number) for number in numbers):
        if is_saved_model(path):
            return path
    raise UserError(f'{export_dir}: no SavedModel; expected saved_model.pb or <number>/saved_model.pb there')


def _components(value: Any, tensor: Any) -> list[np.ndarray]:
    """Returns the arrays to be fed for a tensor, sparse or ragged one, in the order of tf.nest.flatten.

    Raises:
        ValueError, TypeError, OverflowError: `value` does not fit.
    """
    dtype = tensor.dtype.as_numpy_dtype
    if not hasattr(tensor, 'dense_shape') and not hasattr(tensor, 'row_splits'):
        array = _converted(value, dtype)
        if not tensor.shape.is_compatible_with(array.shape):
            raise ValueError(f'expected shape {list(tensor.shape)}, found {list(array.shape)}')
        return [array]
    if hasattr(tensor, 'dense_shape') and hasattr(value, 'dense_shape'):  # tf.SparseTensor or SparseTensorValue
        return [np.asarray(value.indices), _converted(value.values, dtype), np.asarray(value.dense_shape)]
    rows = [_converted(row, dtype) for row in value]
    values = np.concatenate([np.zeros(0, dtype), *rows])
    lengths = [len(row) for row in rows]
    if hasattr(tensor, 'row_splits'):
        return [values, np.cumsum([0, *lengths]).astype(tensor.row_splits.dtype.as_numpy_dtype)]
    indices = [(row, column) for row, length in enumerate(lengths) for column in range(length)]
    return [np.reshape(indices, (-1, 2)).astype(np.int64), values, np.array([len(rows), max(lengths, default=0)])]


def _converted(value: Any, dtype: Any) -> np.ndarray:
    array = np.asarray(value)
    is_text, wants_text = array.dtype.kind in 'OSU', dtype is object
    if array.size and is_text != wants_text:
        raise ValueError(f'expected {"text" if wants_text else np.dtype(dtype).name}, found {array.dtype.name}')
    if wants_text:  # Not from the array: numpy's own text drops zero bytes at the end.
        return np.array(value, dtype=object)
    converted = array.astype(dtype)
    if converted.dtype.kind in 'biu' and not np.array_equal(converted, array):
        raise ValueError(f'expected {converted.dtype.name}, found {array.dtype.name} values that it cannot hold')
    return converted
