"""Runs the program on changed input files, and compares what came of it with what a table wants."""

import dataclasses
import pathlib
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests import program

ERROR = 'estimator_trainer: error: '
LIBJPEG = 'Improper call to JPEG library'  # what it says itself of a file that is cut short
SKIPPED = 'estimator_trainer: WARNING: skipped '
LATE = 'trainer.input_check_secs = 0.0'  # only the first record is looked at before training
_MODULE = pathlib.Path(__file__).with_name('mutation_module.py')


@dataclasses.dataclass(frozen=True)
class Case:
    """A change, and what is to come of it.

    Attributes:
        change: given the content of the first file, returns the new one, or None for no such file; or, given the folder
            of the files, does something there and returns nothing.
        want_code: exit code.
        want: where want_code is 0, the number of examples trained on; else the error, or its beginning before '...'.
            `@` stands for the folder of the files.
        statements: further gin statements; `@/` stands for the folder of the files.
        want_said: what else is said on stdout or stderr.
        arguments: further arguments.
        want_bad: number of bad records that summary.json tells.
    """

    change: Callable[[Any], bytes | None]
    want_code: int
    want: int | str
    statements: Sequence[str] = ()
    want_said: Sequence[str] = ()
    arguments: Sequence[str] = ()
    want_bad: int = 0


@dataclasses.dataclass(frozen=True)
class Table:
    """The cases of one format.

    Attributes:
        config: gin statements.
        files: name -> content, of good input.
        statements: further ones; `@/` stands for the folder of the files.
        cases: name -> case.
    """

    config: str
    statements: Sequence[str]
    files: Mapping[str, bytes]
    cases: Mapping[str, Case]

    def run(self, cwd: pathlib.Path, wrapper: Sequence[str] = ()) -> dict[str, program.Result]:
        """Runs all cases, each with a folder and a model_dir of its own."""
        shutil.copy(_MODULE, cwd)
        (cwd / 'case.gin').write_text(f'import mutation_module\n{self.config}')
        commands = {}
        for name, case in self.cases.items():
            folder = cwd / folder_of(name)
            for file, content in self.files.items():
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                (folder / file).write_bytes(content)
            _change(folder, next(iter(self.files)), case.change)
            statements = [it.replace('@/', f'{folder_of(name)}/') for it in (*self.statements, *case.statements)]
            commands[name] = [
                '--gin_file=case.gin',
                '--mode=train',
                f'--model_dir={folder_of(name)}_model',
                *program.bind(*statements),
                *case.arguments,
            ]
        return program.run_forked(commands, cwd, wrapper=wrapper)

    def check(self, cwd: pathlib.Path, name: str, result: program.Result) -> None:
        """Compares what a case has left with what is wanted."""
        case = self.cases[name]
        lines = result.check(case.want_code).err.splitlines()
        lines = [line for line in lines if not line.startswith((SKIPPED, LIBJPEG))]
        for said in case.want_said:
            said = said.replace('@', folder_of(name))
            assert said in result.out + result.err, f'{result.out}\n{result.err}\ndoes not say {said}'
        model_dir = cwd / f'{folder_of(name)}_model'
        if case.want_code:
            want = ERROR + case.want.replace('@', folder_of(name))
            saved = f'estimator_trainer: saved {model_dir.name}/'
            assert [line for line in lines[:-1] if not line.startswith(saved) or case.want_code == 2] == [], result.err
            fits = lines[-1].startswith(want[:-3]) if want.endswith('...') else lines[-1] == want
            assert fits, f'said\n{lines[-1]}\nwant\n{want}'
        else:
            assert lines == [], result.err
        assert model_dir.exists() == (case.want_code != 2)
        if model_dir.exists():
            summary = program.summary(model_dir)
            assert summary['status'] == ('failed' if case.want_code else 'done')
            assert case.want_code or summary['examples'] == case.want, summary
            assert summary['bad_records'] == case.want_bad, summary


def folder_of(name: str) -> str:
    """Returns the folder of a case's files."""
    return re.sub(r'\W+', '_', name)


def late(cases: Mapping[str, Case], *names: str) -> dict[str, Case]:
    """Returns cases again, whose bad record shows only when it is read: exit code 1."""
    return {
        f'{name} late': dataclasses.replace(cases[name], want_code=1, statements=[*cases[name].statements, LATE])
        for name in names
    }


def replaced(old: str, new: str) -> Callable[[bytes], bytes]:
    """Returns a change that puts `new` in the place of `old`, which must be there once."""

    def change(content: bytes) -> bytes:
        assert content.count(old.encode()) == 1
        return content.replace(old.encode(), new.encode(errors='surrogateescape'))

    return change


def same(content: bytes) -> bytes:
    """Changes nothing."""
    return content


def _change(folder: pathlib.Path, file: str, change: Callable) -> None:
    path = folder / file
    if 'folder' in change.__code__.co_varnames[: change.__code__.co_argcount]:
        change(folder)
    elif (content := change(path.read_bytes())) is None:
        path.unlink()
    else:
        path.write_bytes(content)
