"""Folders of images, a folder for each class."""

import functools
import os
from collections.abc import Iterator, Sequence

import gin

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError, nearest, tensorflow_message
from estimator_trainer.feature_description import feature_description
from estimator_trainer.files import no_file, places
from input_fns import records
from input_fns.forms import Form

_NAME = 'image_folder_input_fn'
SUFFIXES = ('.png', '.jpg', '.jpeg', '.gif', '.bmp')
_LONGEST_PATH = 1 << 20
_CHANNELS = {1: 'grey', 3: 'red, green, blue'}


@gin.configurable
def image_folder_input_fn(
    directory: str = gin.REQUIRED,
    height: int = gin.REQUIRED,
    width: int = gin.REQUIRED,
    channels: int = 3,
    batch_size: int = 32,
    shuffle_buffer: int = 10_000,
    repeat: bool = True,
    seed: int | None = None,
    cache: bool = False,
    max_bad_records: int = 0,
    mode: str | None = None,
    input_context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """Reads images from a directory that has a folder for each class: `directory/class/name.png`.

    The classes are the vocabulary of the label of `feature_description`, and each must have a folder; without a
    label there they are the folders, sorted. In PREDICT mode images lie anywhere below the directory. What begins with
    a dot is left alone.

    Args:
        directory: Found as given, then beside the installed packages.
        height, width: Pixels to which an image is scaled (bilinear) where it has another size.
        channels: 1 (grey) or 3 (red, green, blue).
        batch_size: Examples of one step over all synchronous replicas: the global batch.
        shuffle_buffer: Images to draw the next one from, anew in each epoch; 0 keeps their order, by path.
        repeat: Whether to begin again at the end of the data, without end.
        seed: Seed of the shuffle; None derives it from `RunConfig.tf_random_seed`.
        cache: Whether the list of files is kept (the images are not).
        max_bad_records: Number of files that cannot be read as images, which each process leaves out and tells of.
        mode: A `tf.estimator.ModeKeys`; PREDICT gives no label.
        input_context: What Estimator tells about the replicas and input pipelines.

    Returns:
        A dataset of ({'image': uint8 [replica batch, height, width, channels]}, int32 class [replica batch]), or
        of the features alone.

    Raises:
        UserError: A directory, class or number that cannot be as bound. A file that is no image raises
            tf.errors.InvalidArgumentError when it is read.
    """
    if channels not in _CHANNELS:
        raise UserError(f'{records.binding(_NAME, "channels")}: {channels}; expected 1 or 3')
    for parameter, size in (('height', height), ('width', width)):
        if size < 1:
            raise UserError(f'{records.binding(_NAME, parameter)}: {size}; expected at least 1')
    folder = _found(directory)
    classes = [] if mode == tf.estimator.ModeKeys.PREDICT else _classes(folder)
    paths, others = [], []
    for place in [os.path.join(folder, name) for name in classes] or [folder]:
        images, rest = _images(place)
        if not images:
            raise UserError(f'{place}: no images; expected {", ".join(SUFFIXES)}')
        paths += images
        others += rest
    # Unlike those of other files, "records" are files: what is dealt out to the input pipelines is their list.
    form = _Images(folder, sorted(paths), sorted(others), height, width, channels, classes)
    return records.batches(
        _NAME,
        [folder],
        form,
        batch_size=batch_size,
        shuffle_buffer=shuffle_buffer,
        repeat=repeat,
        seed=seed,
        cache=cache,
        max_bad_records=max_bad_records,
        input_context=input_context,
    )


def _found(directory: str) -> str:
    where = records.binding(_NAME, 'directory')
    looked_at = places(directory)
    for place in looked_at:
        if tf.io.gfile.isdir(place):
            return place.rstrip('/')
    if tf.io.gfile.exists(directory):
        raise UserError(f'{where}: {directory!r} is a file; expected a directory with a folder for each class')
    around = [os.path.dirname(place.rstrip('/')) or '.' for place in looked_at]
    names = [name.rstrip('/') for place in around if tf.io.gfile.isdir(place) for name in tf.io.gfile.listdir(place)]
    hint = nearest(os.path.basename(directory.rstrip('/')), names)
    raise UserError(f'{where}: no directory {" or ".join(map(repr, looked_at))}{hint}')


def _classes(folder: str) -> list[str]:
    """Returns the names of the classes, each with a folder."""
    entries = sorted(name.rstrip('/') for name in tf.io.gfile.listdir(folder))
    folders = [name for name in entries if tf.io.gfile.isdir(os.path.join(folder, name)) and not name.startswith('.')]
    if strays := [name for name in entries if _is_image(name) and name not in folders]:
        raise UserError(f'{os.path.join(folder, strays[0])}: an image outside of the folders of the classes')
    description = feature_description()
    if description is None or description.label is None:
        classes = folders
    else:
        classes = [str(word) for word in description.label.vocabulary or ()]
        if not classes:
            raise UserError(f'feature_description.label: no vocabulary; {_NAME} expects the names of the classes')
        for name in folders:
            if name not in classes:
                hint = nearest(name, classes)
                raise UserError(f'{os.path.join(folder, name)}: no class among {", ".join(classes)}{hint}')
    if not classes:
        raise UserError(f'{folder}: no folders; expected one for each class')
    for name in classes:
        if name not in folders:
            raise UserError(f'{folder}: no folder for class {name!r}{nearest(name, folders)}')
    return classes


def _images(folder: str) -> tuple[list[str], list[str]]:
    """Returns the paths of the images anywhere below a folder, and those of other files."""
    found = [os.path.join(place, name) for place, names in _walk(folder) for name in names]
    seen = [path for path in found if '/.' not in path[len(folder) :]]
    images = [path for path in seen if _is_image(path)]
    for path in images:
        if what := no_file(path):
            raise UserError(f'{path}: {what}; expected an image')
    return images, [path for path in seen if not _is_image(path)]


def _walk(folder: str) -> Iterator[tuple[str, list[str]]]:
    """Yields each folder below one, and it, with the names of its files.

    A link is followed, but not to a folder that it lies in: that has the images of other classes, again and again.
    """
    if '://' in folder:
        yield from ((place, names) for place, _, names in tf.io.gfile.walk(folder))
        return
    for place, folders, names in os.walk(folder, followlinks=True):
        here = os.path.join(os.path.realpath(place), '')
        below = [os.path.join(os.path.realpath(os.path.join(place, name)), '') for name in folders]
        folders[:] = [name for name, real in zip(folders, below, strict=True) if not here.startswith(real)]
        yield place, names


def _is_image(path: str) -> bool:
    return path.lower().endswith(SUFFIXES)


class _Images(Form):
    """Image files; a record is a path."""

    batched = False
    compressed = False

    def __init__(
        self,
        folder: str,
        paths: Sequence[str],
        others: Sequence[str],
        height: int,
        width: int,
        channels: int,
        classes: Sequence[str],
    ):
        super().__init__()
        self._folder = folder
        self._paths = paths
        self._others = others
        self._size = (height, width)
        self._channels = channels
        self._classes = classes

    def dataset(self, path, compression):
        return tf.data.Dataset.from_tensor_slices(list(self._paths))

    def read(self, path):
        return ((number, path.encode()) for number, path in enumerate(self._paths, 1))

    def place(self, path, number):
        return self._paths[number - 1]

    def remarks(self):
        if not self._others:
            return []
        more = f' and {len(self._others) - 1:,} more' if len(self._others) > 1 else ''
        return [f'left alone, not being named {", ".join(SUFFIXES)}: {self._others[0]}{more}']

    def check(self, record: bytes) -> None:
        try:
            with tf.io.gfile.GFile(record.decode(), 'rb') as file:
                content = file.read()
            if not content:
                raise ValueError('the file is empty; expected an image')
            session, given, image = self._decoder
            session.run(image, {given: content})
        except tf.errors.OpError as error:
            raise ValueError(f'no image that can be read: {tensorflow_message(error)}') from None

    @functools.cached_property
    def _decoder(self) -> tuple[tf.compat.v1.Session, tf.Tensor, tf.Operation]:
        # A session of its own, for input_fns may run where there is no eager mode.
        graph = tf.Graph()
        with graph.as_default():
            given = tf.compat.v1.placeholder(tf.string, [])
            return tf.compat.v1.Session(graph=graph), given, self._decoded(given).op

    def _decoded(self, content: tf.Tensor) -> tf.Tensor:
        image = tf.io.decode_image(content, self._channels, expand_animations=False)
        image.set_shape([None, None, self._channels])
        return image

    def parse(self, path):
        image = self._decoded(tf.io.read_file(path))
        same = tf.reduce_all(tf.equal(tf.shape(image)[:2], self._size))
        scaled = tf.cond(same, lambda: image, lambda: self._scaled(image))
        scaled.set_shape([*self._size, self._channels])
        if not self._classes:
            return {'image': scaled}
        # The folder of the class, which may have folders of its own.
        below = tf.strings.substr(path, len(os.path.join(self._folder, '').encode()), _LONGEST_PATH)
        name = tf.strings.split(below, '/')[0]
        return {'image': scaled}, tf.argmax(tf.equal(name, list(self._classes)), output_type=tf.int32)

    def _scaled(self, image: tf.Tensor) -> tf.Tensor:
        return tf.cast(tf.round(tf.image.resize(image, self._size)), tf.uint8)
