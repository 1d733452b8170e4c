"""Folders of images that are changed in many ways, through the whole program: what is legal, what is said of the rest."""

import os
import shutil

import numpy as np
import pytest

from tests.input_fns.example_images import bmp, gif, jpeg, png
from tests.input_fns.mutations import Case, Table, late, same

CONFIG = """
import input_fns.image_folder
experiment.model_fn = @mutation_model_fn
experiment.train_input_fn = @image_folder_input_fn
image_folder_input_fn.height = 4
image_folder_input_fn.width = 4
image_folder_input_fn.batch_size = 2
image_folder_input_fn.shuffle_buffer = 0
image_folder_input_fn.repeat = False
feature_description.label = {'species': {'vocabulary': ['cat', 'dog']}}
"""


def elsewhere(it):
    (it / 'dog').rename(it.with_name(f'{it.name}_dogs'))
    (it / 'dog').symlink_to(f'../{it.name}_dogs')


PIXELS = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
PNG, JPEG = png(PIXELS), jpeg(PIXELS)
FRAME = np.arange(16, dtype=np.uint8).reshape(4, 4) % 4
GIF = gif([FRAME, FRAME.T])
# The first is the one that is changed.
FILES = {f'{name}.png': PNG for name in ('dog/3', 'cat/1', 'cat/2', 'cat/3', 'dog/1', 'dog/2')}
GREY = ['image_folder_input_fn.channels = 1']
FOLDERS = ['feature_description.label = None']
PREDICT = ['feature_description.label = None', 'experiment.train_input_fn = @unlabelled/image_folder_input_fn']


def unlike(content, want, *statements):
    return Case(lambda _: content, 2, f'@/dog/3.png: {want}', statements)


def folder(do, code, want, *statements, said=()):
    """What is done in the folder of the images."""
    return Case(lambda folder: do(folder), code, want, statements, said)


UNREADABLE = 'no image that can be read: InvalidArgumentError: ...'
BAD = {
    'empty file': unlike(b'', 'the file is empty; expected an image'),
    'text': unlike(b'species,mass\ncat,1\n' * 9, UNREADABLE),
    'short text': unlike(b'a', UNREADABLE),
    'PNG cut short': unlike(PNG[:-30], UNREADABLE),
    'PNG of a head alone': unlike(PNG[:20], UNREADABLE),
    'PNG damaged': unlike(PNG[:45] + bytes([PNG[45] ^ 255]) + PNG[46:], UNREADABLE),
    'JPEG cut short': unlike(JPEG[:-40], UNREADABLE),
    'JPEG of a head alone': unlike(JPEG[:100], UNREADABLE),
    'BMP cut short': unlike(bmp(PIXELS)[:-20], UNREADABLE),
    'GIF cut short': unlike(GIF[:40], UNREADABLE),
    'GIF in grey': unlike(GIF, UNREADABLE, *GREY),
    'WebP': unlike(b'RIFF\x1a\0\0\0WEBPVP8L', UNREADABLE),
    'TIFF': unlike(b'II*\0\x08\0\0\0', UNREADABLE),
    'SVG': unlike(b'<svg xmlns="http://www.w3.org/2000/svg"/>', UNREADABLE),
}
FOLDER = {
    'no directory': folder(
        lambda it: it.rename(f'{it}_'), 2,
        "--gin_param #1: image_folder_input_fn.directory: no directory '@/' or ...",
    ),
    'a file': Case(
        same, 2,
        "--gin_param #2: image_folder_input_fn.directory: '@/dog/3.png' is a file; expected a directory with a folder for "
        'each class', ["image_folder_input_fn.directory = '@/dog/3.png'"],
    ),
    'no class': folder(
        lambda it: (it / 'cow').mkdir(), 2, '@/cow: no class among cat, dog',
    ),
    'class misspelt': folder(
        lambda it: (it / 'dog').rename(it / 'dogs'), 2, "@/dogs: no class among cat, dog; did you mean 'dog'?"
    ),
    'class without a folder': folder(lambda it: shutil.rmtree(it / 'dog'), 2, "@: no folder for class 'dog'"),
    'class without images': folder(
        lambda it: [path.unlink() for path in (it / 'dog').iterdir()], 2,
        '@/dog: no images; expected .png, .jpg, .jpeg, .gif, .bmp',
    ),
    'image beside the folders': folder(
        lambda it: (it / '4.PNG').write_bytes(PNG), 2, '@/4.PNG: an image outside of the folders of the classes'
    ),
    'images without folders': folder(
        lambda it: [shutil.rmtree(it / name) for name in ('cat', 'dog')], 2, '@: no folders; expected one for each class', *FOLDERS
    ),
    'broken link': folder(
        lambda it: (it / 'dog' / '4.png').symlink_to('nowhere.png'), 2, '@/dog/4.png: no image that can be read: NotFoundError: ...'
    ),
    'pipe': folder(lambda it: os.mkfifo(it / 'dog' / '4.png'), 2, '@/dog/4.png: a pipe; expected an image'),
    'folder called as an image': folder(lambda it: (it / 'dog' / '4.png').mkdir(), 0, 6),
    'vanishes': Case(
        same, 1, '@/dog/3.png: no image that can be read: NotFoundError: ...',
        ['experiment.hooks = [@Once()]', "Once.path = '@/dog/3.png'"],
    ),
    'channels': Case(
        same, 2, '--gin_param #2: image_folder_input_fn.channels: 4; expected 1 or 3', ['image_folder_input_fn.channels = 4']
    ),
}  # fmt: skip
LEGAL = {
    'as it was': Case(same, 0, 6),
    'JPEG': Case(lambda _: JPEG, 0, 6),
    'GIF': Case(lambda _: gif([FRAME]), 0, 6),
    'animated GIF': Case(lambda _: GIF, 0, 6),
    'BMP': Case(lambda _: bmp(PIXELS), 0, 6),
    'grey PNG': Case(lambda _: png(PIXELS[..., :1]), 0, 6),
    'PNG with alpha': Case(lambda _: png(np.concatenate([PIXELS, PIXELS[..., :1]], -1)), 0, 6),
    'PNG of 16 bits': Case(lambda _: png(PIXELS.astype(np.uint16) * 257), 0, 6),
    'in grey': Case(same, 0, 6, GREY),
    'one pixel': Case(lambda _: png(PIXELS[:1, :1]), 0, 6),
    'large': Case(lambda _: png(np.zeros([300, 200, 3], np.uint8)), 0, 6),
    'link to the folder above': folder(lambda it: (it / 'dog' / 'all').symlink_to('..'), 0, 6),
    'class that is a link': folder(elsewhere, 0, 6),
    'capitals': folder(lambda it: (it / 'dog' / '3.png').rename(it / 'dog' / '3.PNG'), 0, 6),
    'folder in a folder': folder(lambda it: shutil.copytree(it / 'cat', it / 'dog' / 'cat'), 0, 9),
    'hidden files': folder(
        lambda it: [(it / 'dog' / name).write_bytes(b'x') for name in ('.DS_Store', '._3.png')], 0, 6
    ),
    'hidden folder': folder(lambda it: shutil.copytree(it / 'dog', it / '.trash'), 0, 6),
    'other files': folder(
        lambda it: [(it / 'dog' / name).write_bytes(b'x') for name in ('notes.txt', '4.webp')], 0, 6,
        said=['left alone, not being named .png, .jpg, .jpeg, .gif, .bmp: @/dog/4.webp and 1 more'],
    ),
    'file beside the folders': folder(lambda it: (it / 'README.md').write_bytes(b'x'), 0, 6),
    'classes of the folders': folder(lambda it: (it / 'dog').rename(it / 'wolf'), 0, 6, *FOLDERS),
}  # fmt: skip
CASES = BAD | FOLDER | LEGAL | late(BAD, 'empty file', 'PNG cut short', 'JPEG cut short')
TABLE = Table(CONFIG, ["image_folder_input_fn.directory = '@/'"], FILES, CASES)


@pytest.fixture(scope='module')
def outcomes(tmp_path_factory):
    cwd = tmp_path_factory.mktemp('image_folder')
    return cwd, TABLE.run(cwd)


@pytest.mark.once('newest')
@pytest.mark.parametrize('name', CASES)
def test_outcome(outcomes, name):
    cwd, results = outcomes
    TABLE.check(cwd, name, results[name])
