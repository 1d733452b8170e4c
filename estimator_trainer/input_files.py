"""What can be told of an input: from its graph the files it reads and its batches, and the feature description."""

from typing import Any

from estimator_trainer.compat import tf
from estimator_trainer.feature_description import feature_description
from estimator_trainer.rehearsal import Built

_LONGEST_LIST = 20  # files that are shown to a person
_LONGEST_STRING = 4096  # characters; a longer constant is no path


def describe(built: Built | None) -> dict[str, Any] | None:
    """Returns the files that an input reads, its number of batches, and its features; None where it was not built."""
    if built is None:
        return None
    cardinality = built.cardinality()
    features = built.features if isinstance(built.features, dict) else {'features': built.features}
    return {
        'files': _files(built),
        'batches': 'infinite' if cardinality == tf.data.INFINITE_CARDINALITY else cardinality,
        'features': {name: f'{spec.dtype.name} {spec.shape}' for name, spec in features.items()},
    }


def described() -> dict[str, Any] | None:
    """Returns the feature description: name -> what is said of it, for features and crosses, and for the label."""
    description = feature_description()
    if description is None:
        return None
    label = description.label
    return {
        'features': {name: str(feature) for name, feature in description.features.items()},
        'crosses': {name: str(cross) for name, cross in description.crosses.items()},
        'label': {label.name: str(label)} if label else {},
    }


def lines(plan: dict[str, Any]) -> list[str]:
    """Returns the lines that tell the inputs and the feature description of a plan to a person."""
    result = []
    for name, data in plan['input'].items():
        if data:
            batches = data['batches'] if data['batches'] is not None else 'unknown number of'
            result.append(f'{name + " input":<12} {batches} batches, {len(data["files"])} files')
            result += [f'  {file["path"]} ({file["bytes"]:,} bytes)' for file in data['files'][:_LONGEST_LIST]]
    result += [f'  {remark}' for remark in plan['input_remarks']]
    for kind, said in (plan['feature_description'] or {}).items():
        result += [kind, *(f'  {name}: {text}' for name, text in said.items())] if said else []
    return result


def _files(built: Built) -> list[dict[str, Any]]:
    """Returns the files that the input reads: those that a string constant in its graph names."""
    graph = built.input
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    paths: dict[str, int] = {}
    for node in nodes:
        tensor = node.attr['value'].tensor
        if node.op != 'Const' or tensor.dtype != tf.string.as_datatype_enum:
            continue
        for value in tf.make_ndarray(tensor).ravel():
            path = value.decode(errors='replace')
            # A class name or a column is no path, even where a file in the current directory is called the same.
            if len(path) < _LONGEST_STRING and ('/' in path or '.' in path) and path not in paths:
                paths |= _sizes(path)
    return [{'path': path, 'bytes': size} for path, size in sorted(paths.items())]


def _sizes(pattern: str) -> dict[str, int]:
    try:
        found = [pattern] if tf.io.gfile.exists(pattern) else tf.io.gfile.glob(pattern)
        return {path: tf.io.gfile.stat(path).length for path in found if not tf.io.gfile.isdir(path)}
    except tf.errors.OpError:  # It is no path of any file system.
        return {}
