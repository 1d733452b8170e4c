"""What a run tells a person: where it starts, how it goes on, how it ended."""

import datetime
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import tqdm

from estimator_trainer import console
from estimator_trainer.summary import Summary

_LONGEST_ETA = 1e9  # seconds, some 30 years


class Report:
    """Prints a run's lines: a progress bar on a terminal, plain lines elsewhere.

    Attributes:
        max_steps: the step at which training ends, None where it is the input's end.
        on_terminal: whether there is a progress bar, which `step` moves.
    """

    def __init__(self, summary: Summary, max_steps: int | None, where: str = ''):
        self._summary = summary
        self.max_steps = max_steps
        self._where = where
        self._bar: tqdm.tqdm | None = None
        # A terminal without a size, as containers have, shows no bar.
        self.on_terminal = sys.stderr.isatty() and os.get_terminal_size(sys.stderr.fileno()).columns > 0

    def warn(self, message: str) -> None:
        """Prints a warning and keeps it for the summary, once."""
        if message not in self._summary.warnings:
            self._summary.warnings.append(message)
            console.say(f'WARNING: {message}')

    def start(self, title: str, facts: Mapping[str, Any]) -> None:
        """Prints the head of the run: versions, a title, and a line for each fact."""
        versions = self._summary.versions
        console.out(
            f'estimator_trainer {versions["estimator_trainer"]}, TensorFlow {versions["tensorflow"]}: {title}',
        )
        self.table(facts.items())

    def step(self, step: int) -> None:
        """Moves the progress bar."""
        if self._bar is None:
            self._bar = tqdm.tqdm(initial=step, total=self.max_steps, unit='step', dynamic_ncols=True, leave=False)
        self._bar.update(min(step, self.max_steps or step) - self._bar.n)

    def progress(self, step: int, loss: float, steps_per_second: float, examples_per_second: float | None) -> None:
        """Prints the state of the training."""
        rate = f'{examples_per_second:,.0f} examples/s{self._where}' if examples_per_second is not None else ''
        if self.on_terminal:
            self.step(step)
            self._bar.set_postfix_str(f'loss {loss:.4g}, {rate}')
            return
        parts = [f'step {step:,}', f'loss {loss:.4g}', f'{steps_per_second:,.1f} steps/s', rate]
        if self.max_steps is not None:
            parts[0] += f'/{self.max_steps:,}'
            seconds = max(self.max_steps - step, 0) / max(steps_per_second, 1e-9)
            if seconds < _LONGEST_ETA:
                parts.append(f'ETA {datetime.timedelta(seconds=round(seconds))}')
        console.out(' | '.join(part for part in parts if part))

    def evaluation(self, evaluation: dict[str, Any]) -> None:
        """Prints the metrics of an evaluation."""
        console.out(_evaluation_line(evaluation))

    def export(self, export: dict[str, Any]) -> None:
        """Prints where an export was written."""
        console.out(f'export {export["name"]!r} of step {export["step"]:,}: {export["path"]}')

    def finish(self, summary_path: str | None, **more: Any) -> None:
        """Prints the table at the end of the run, with further facts of its mode."""
        summary = self._summary
        facts: dict[str, Any] = {}
        if summary.first_step is not None:
            facts['steps'] = f'{summary.first_step:,} -> {summary.final_step:,}'
        if summary.steps_per_second:
            facts['steps'] += f' in {summary.seconds:,.1f} s, {summary.steps_per_second:,.1f} steps/s'
        if summary.overshoot:
            facts['overshoot'] = f'{summary.overshoot:,} steps beyond max_steps, by asynchronous workers'
        if summary.examples:
            facts['examples'] = f'{summary.examples:,}'
        if summary.bad_records:
            facts['left out'] = f'{summary.bad_records:,} bad records'
        if summary.evaluations:
            facts['evaluation'] = _evaluation_line(summary.evaluations[-1]).removeprefix('evaluation ')
            if summary.evaluations_skipped:
                every = len(summary.evaluations) + summary.evaluations_skipped
                facts['skipped'] = f'{summary.evaluations_skipped} of {every} evaluations (trainer.throttle_secs)'
        if summary.exports:
            facts['export'] = summary.exports[-1]['path']
        if summary.checkpoint:
            facts['checkpoint'] = summary.checkpoint
        if summary.warnings:
            facts['warnings'] = len(summary.warnings)
        if summary_path:
            facts['summary'] = summary_path
        facts |= more
        because = f' ({summary.stopped_because})' if summary.stopped_because else ''
        console.out(f'{summary.status}{because}')
        self.table(facts.items())

    def tasks(self) -> None:
        """Prints a line for each task of the cluster."""
        console.tasks(self._summary.tasks)

    def table(self, facts: Iterable[tuple[str, Any]]) -> None:
        """Prints a line for each (name, value)."""
        for name, value in facts:
            console.out(f'  {name:<11}{value}')

    def close(self) -> None:
        """Takes the progress bar away."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _evaluation_line(evaluation: dict[str, Any]) -> str:
    metrics = ', '.join(
        f'{name} {value:.4g}' if isinstance(value, float) else f'{name} {value}'
        for name, value in sorted(evaluation['metrics'].items())
    )
    examples = f' ({evaluation["examples"]:,} examples)' if evaluation['examples'] is not None else ''
    return f'evaluation {evaluation["name"]!r} at step {evaluation["step"]:,}: {metrics}{examples}'
