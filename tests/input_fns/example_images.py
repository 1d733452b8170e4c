"""Images as files, of kinds that TensorFlow reads but does not write too."""

import struct
from collections.abc import Sequence

import numpy as np

from estimator_trainer.compat import tf


def png(pixels: np.ndarray) -> bytes:
    """Returns a PNG file of uint8 or uint16 pixels [height, width, 1 to 4]."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        return session.run(tf.io.encode_png(pixels))


def jpeg(pixels: np.ndarray) -> bytes:
    """Returns a JPEG file of uint8 pixels [height, width, 1 or 3]."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        return session.run(tf.io.encode_jpeg(pixels, quality=100))


def gif(frames: Sequence[np.ndarray]) -> bytes:
    """Returns a GIF file of frames of the colours 0 (black), 1 (white), 2 (red) and 3 (blue), uint8 [height, width]."""
    height, width = frames[0].shape
    colours = bytes([0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0, 255])
    content = b'GIF89a' + struct.pack('<HHBBB', width, height, 0x81, 0, 0) + colours
    for frame in frames:
        # Codes of 3 bits: 4 clears the table, 5 ends. Cleared after every two pixels, it never needs longer codes.
        pixels = frame.ravel().tolist()
        codes = [code for i in range(0, len(pixels), 2) for code in (4, *pixels[i : i + 2])] + [5]
        bits = sum(code << 3 * i for i, code in enumerate(codes))
        data = bits.to_bytes(-(-3 * len(codes) // 8), 'little')
        content += b'\x21\xf9\x04\x00\x05\x00\x00\x00'  # shown for 50 ms
        content += b',' + struct.pack('<HHHHB', 0, 0, width, height, 0) + b'\2' + bytes([len(data)]) + data + b'\0'
    return content + b';'


def bmp(pixels: np.ndarray) -> bytes:
    """Returns a BMP file of uint8 pixels [height, width, 3], of a width that is a multiple of 4."""
    height, width, _ = pixels.shape
    data = pixels[::-1, :, ::-1].tobytes()
    head = struct.pack('<IiiHHIIiiII', 40, width, height, 1, 24, 0, len(data), 2835, 2835, 0, 0)
    return b'BM' + struct.pack('<IHHI', 54 + len(data), 0, 0, 54) + head + data
