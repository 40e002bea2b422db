# SPDX-License-Identifier: Apache-2.0
"""Asks the sampler for parameters, and which trials to stop early: the question, the process, the answer.

What needs a library runs in a process of its own with a time limit: it reads the whole history on its input, and is
gone after its answer. Random search, grids and pruners are small pure functions, which are called here.
"""

import asyncio
import os
import sys
import zlib
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

import msgspec

from trainwright.api.messages import one_line, shortened
from trainwright.api.objects import Document, annotations_of, uid_of
from trainwright.api.trainer.v1alpha1 import OptimizationJob
from trainwright.controller.optimization import sampler
from trainwright.controller.optimization.names import ANNOTATION_SAMPLER, SAMPLERS
from trainwright.controller.optimization.plan import pruner_of
from trainwright.controller.optimization.trials import Trials

SECONDS = 60.0
"""How long the process may take."""
_IN_PROCESS = ("random", "grid")
_SHOWN = 300
COMMAND = (sys.executable, "-m", "trainwright.controller.optimization.sampler")


class NoAnswerError(Exception):
    """There is no answer; the message says why."""


class Suggestion(msgspec.Struct):
    """Parameters for one trial."""

    number: int
    parameters: dict[str, str]


class Prune(msgspec.Struct):
    """A trial to stop, at this step."""

    number: int
    step: int


class Answer(msgspec.Struct):
    trials: list[Suggestion]
    prune: list[Prune] = msgspec.field(default_factory=list)


Ask: TypeAlias = Callable[[Document], Awaitable[Document]]
"""Takes a question and returns the answer, as documents. Raises NoAnswerError."""


def question(job: OptimizationJob, trials: Trials, numbers: Iterable[int] = (), *, sampler_name: str = "") -> Document:
    """The question for the parameters of the trials with these numbers, and for trials to stop early."""
    objective = job.spec.objectives[0]
    return {
        "objective": {"metric": objective.metric, "direction": objective.direction or "Minimize"},
        "sampler": sampler_name or sampler_of(job),
        "seed": _seed(job),
        "pruner": pruner_of(job),
        "parameters": [msgspec.to_builtins(one) for one in job.spec.parameters],
        "trials": [
            {
                "number": one.number,
                "parameters": dict(one.parameters),
                "state": str(one.state),
                "value": one.value,
                "intermediate": [list(point) for point in one.curve],
            }
            for one in trials.values()
        ],
        "numbers": list(numbers),
    }


def sampler_of(job: OptimizationJob) -> str:
    algorithm = job.spec.search_algorithm
    if algorithm is not None and algorithm.grid is not None:
        return "grid"
    named = annotations_of(job).get(ANNOTATION_SAMPLER, "")
    return named if named in SAMPLERS else "random"


def _seed(job: OptimizationJob) -> int:
    algorithm = job.spec.search_algorithm
    seed = algorithm.random.seed if algorithm is not None and algorithm.random is not None else None
    return zlib.crc32(uid_of(job).encode()) if seed is None else seed % 2**32


def checked(answer: Document, numbers: Iterable[int], job: OptimizationJob) -> Answer:
    """The answer, if it answers the question. Raises NoAnswerError."""
    try:
        found = msgspec.convert(answer, Answer)
    except msgspec.ValidationError as error:
        raise NoAnswerError(f"the sampler's answer is not as expected: {error}") from None
    wanted, parameters = list(numbers), {one.name for one in job.spec.parameters}
    if [one.number for one in found.trials] != wanted or any(
        one.parameters.keys() != parameters for one in found.trials
    ):
        raise NoAnswerError(f"the sampler did not answer with parameters for the trials {wanted}")
    return found


async def ask(asked: Document) -> Document:
    """Answer here what needs no library, and else in a process. Raises NoAnswerError."""
    if asked["sampler"] not in _IN_PROCESS:
        return await in_process(asked, COMMAND, SECONDS)
    try:
        return sampler.answer(asked)
    except sampler.SamplerError as error:
        raise NoAnswerError(str(error)) from None


async def in_process(asked: Document, command: Iterable[str], seconds: float) -> Document:
    """Answer in a process, which is killed after so many seconds. Raises NoAnswerError."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        # Libraries for mathematics start a thread for each processor unless they are told otherwise.
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
    )
    try:
        async with asyncio.timeout(seconds):
            output, errors = await process.communicate(msgspec.json.encode(asked))
    except TimeoutError:
        raise NoAnswerError(f"the sampler did not answer within {seconds:g} s and was stopped") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        lines = errors.decode(errors="replace").strip().splitlines()
        said = shortened(one_line(lines[-1]), _SHOWN) if lines else f"exit code {process.returncode}"
        raise NoAnswerError(said)
    try:
        return msgspec.json.decode(output, type=dict)
    except msgspec.DecodeError as error:
        raise NoAnswerError(f"the sampler's answer is not a JSON object: {error}") from None
