"""`tarbox ask --file`: the answers to every line of a file, by several processes where there are many lines (ADR 56).

The lines are divided into batches; process p of N takes the batches p, p + N, p + 2 N, ... and sends what it would
have printed. Batches are printed in their order, so that the output is that of one process. Every process opens the run
itself: its arrays and tables are mapped, so that the machine holds them once.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from itertools import count, islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from tarbox.core.errors import TarboxError

if TYPE_CHECKING:
    from tarbox.cli.ask import Asking

BATCH: Final = 64
"""Lines that are answered at once."""
_WORTH: Final = 1000
"""The fewest lines that are worth a process of their own: it takes about as long to begin."""
Printed: TypeAlias = tuple[str, str, int]
"""What a batch prints on both streams, and how many of its lines were rejected."""


def answer_file(asking: Asking, file: Path, processes: int) -> int:
    """Prints all answers in the order of the lines; returns how many lines were rejected."""
    from tarbox.cli.answer_tables import Form
    from tarbox.cli.ask import read_lines

    workers = 1
    if asking.shown[0] is not Form.SCREEN and file.is_file():  # tables on a screen know of each other and of its width
        lines = sum(1 for _ in read_lines(file))
        workers = max(1, min(processes or os.cpu_count() or 1, lines if processes else lines // _WORTH))
    if workers > 1:
        return _answer_beside(asking, file, workers)
    session = asking.open()
    return sum(session.put_many(file, batch) for batch in _batches(file))


def _batches(file: Path) -> Iterator[list[tuple[int, str]]]:
    from tarbox.cli.ask import read_lines

    lines = read_lines(file)
    while batch := list(islice(lines, BATCH)):
        yield batch


def _answer_beside(asking: Asking, file: Path, workers: int) -> int:
    """By so many processes."""
    from tarbox.cli.answer_tables import TSV_COLUMNS, Form

    context = multiprocessing.get_context("spawn")
    ends = [context.Pipe(duplex=False) for _ in range(workers)]
    started = [
        context.Process(target=_work, args=(asking, file, (place, workers), sending), daemon=True)
        for place, (_, sending) in enumerate(ends)
    ]
    head, rejected = asking.shown[0] is Form.TSV, 0
    try:
        for process, (_, sending) in zip(started, ends, strict=True):
            process.start()
            sending.close()
        for number in count():
            place = number % workers
            try:
                printed: Printed | TarboxError | None = ends[place][0].recv()
            except EOFError:
                started[place].join()
                ended = f"process {place + 1} of {workers} ended with exit code {started[place].exitcode}"
                fewer = max(1, workers // 2)
                raise TarboxError(f"{ended} (out of memory?). Ask with fewer: --processes {fewer}.") from None
            if printed is None:
                return rejected
            if isinstance(printed, TarboxError):
                raise printed
            answers, complaints, wrong = printed
            if head and answers:
                print("\t".join(TSV_COLUMNS))
                head = False
            sys.stdout.write(answers)
            sys.stderr.write(complaints)
            rejected += wrong
        raise AssertionError
    finally:
        for process in started:
            process.kill()
            process.join()


def _work(asking: Asking, file: Path, share: tuple[int, int], results: Connection) -> None:
    """A process: its share of the batches, then nothing more. What cannot be opened is told to the first that waits."""
    place, workers = share
    os.environ["NUMBA_NUM_THREADS"] = "1"  # the others have the other processors
    try:
        session = asking.open()
        session.printer.printed = 1  # the head of a table is printed where batches meet
        for batch in islice(_batches(file), place, None, workers):
            answers, complaints = io.StringIO(), io.StringIO()
            with redirect_stdout(answers), redirect_stderr(complaints):
                wrong = session.put_many(file, batch)
            results.send((answers.getvalue(), complaints.getvalue(), wrong))
        results.send(None)
    except TarboxError as error:
        results.send(TarboxError(str(error)))
    except BrokenPipeError:
        return  # nobody waits for the rest
