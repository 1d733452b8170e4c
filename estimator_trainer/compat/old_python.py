"""What Python and numpy had and have no longer, as far as Estimator programs use it; `moved` says under which names."""

import importlib.machinery
import importlib.util
import inspect
import os
import re
import shutil
import sys
from collections import namedtuple
from functools import total_ordering
from types import ModuleType
from typing import Any

import numpy as np

NINF = -np.inf
ArgSpec = namedtuple('ArgSpec', 'args varargs keywords defaults')


def getargspec(func: Any) -> ArgSpec:
    """As `inspect.getargspec`: the parameters of a function that has neither keyword-only ones nor annotations."""
    spec = inspect.getfullargspec(func)
    if spec.kwonlyargs or spec.annotations:
        raise ValueError('the function has keyword-only parameters or annotations: use inspect.signature()')
    return ArgSpec(*spec[:4])


@total_ordering
class LooseVersion:
    """As `distutils.version.LooseVersion`: numbers and words, compared from left to right."""

    def __init__(self, vstring: str | None = None):
        if vstring:
            self.parse(vstring)

    def parse(self, vstring: str) -> None:
        """Takes a version's text apart."""
        self.vstring = vstring
        parts = re.split(r'(\d+|[a-z]+|\.)', vstring)
        self.version = [int(part) if part.isdigit() else part for part in parts if part and part != '.']

    def __str__(self) -> str:
        return self.vstring

    def __repr__(self) -> str:
        return f"{type(self).__name__} ('{self}')"

    def _key(self) -> Any:
        return self.version

    def _other(self, other: Any) -> Any:
        return type(self)(other) if isinstance(other, str) else other

    def __eq__(self, other: Any) -> bool:
        other = self._other(other)
        return self._key() == other._key() if isinstance(other, type(self)) else NotImplemented

    def __lt__(self, other: Any) -> bool:
        other = self._other(other)
        return self._key() < other._key() if isinstance(other, type(self)) else NotImplemented

    __hash__ = None


class StrictVersion(LooseVersion):
    """As `distutils.version.StrictVersion`: `1.2`, `1.2.3`, with a pre-release `a1` or `b1` before the release."""

    def parse(self, vstring: str) -> None:
        """Takes a version's text apart."""
        found = re.fullmatch(r'(\d+)\.(\d+)(?:\.(\d+))?(?:([ab])(\d+))?', vstring)
        if not found:
            raise ValueError(f"invalid version number '{vstring}'")
        self.version = tuple(int(part or 0) for part in found.groups()[:3])
        self.prerelease = (found[4], int(found[5])) if found[4] else None

    def __str__(self) -> str:
        numbers = '.'.join(map(str, self.version if self.version[2] else self.version[:2]))
        return numbers + (f'{self.prerelease[0]}{self.prerelease[1]}' if self.prerelease else '')

    def _key(self) -> Any:
        return self.version, self.prerelease or ('z',)


def strtobool(val: str) -> int:
    """As `distutils.util.strtobool`."""
    if val.lower() in ('y', 'yes', 't', 'true', 'on', '1'):
        return 1
    if val.lower() in ('n', 'no', 'f', 'false', 'off', '0'):
        return 0
    raise ValueError(f'invalid truth value {val!r}')


def mkpath(name: str, mode: int = 0o777) -> None:
    """As `distutils.dir_util.mkpath`, less the list of what it made."""
    os.makedirs(name, mode, exist_ok=True)


def copy_tree(src: str, dst: str) -> list[str]:
    """As `distutils.dir_util.copy_tree`: copies into a directory that may exist, returns the files written."""
    written: list[str] = []

    def copy(source, target):
        written.append(target)
        return shutil.copy2(source, target)

    shutil.copytree(src, dst, copy_function=copy, dirs_exist_ok=True)
    return written


def load_source(name: str, pathname: str) -> ModuleType:
    """As `imp.load_source`: runs a file as the module `name`, in `sys.modules` from then on."""
    loader = importlib.machinery.SourceFileLoader(name, pathname)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def in1d(ar1: Any, ar2: Any, assume_unique: bool = False, invert: bool = False) -> np.ndarray:
    """As `numpy.in1d`."""
    return np.isin(np.ravel(ar1), ar2, assume_unique=assume_unique, invert=invert)
