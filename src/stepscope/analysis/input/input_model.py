"""How fast an input pipeline can be: which of its stages limits it, and what a change would save.

A pipeline is cut into threads. What takes elements runs the stages after the last asynchronous one
itself; each asynchronous stage (prefetch, a parallel map, ...) has a thread of its own, which runs
the stages before it, up to the next asynchronous one; its function runs in so many parallel calls.
Threads work at the same time, so that the slowest decides, and what takes elements is one of them:

    >>> load = Step("load", own_ns=2e6)
    >>> decode = Step("map", own_ns=20e6, inputs=(0,), function=True)
    >>> batch = Step("batch", own_ns=1e6, inputs=(1,))
    >>> model = Model((load, decode, batch), consumer_ns=3e6)
    >>> model.period_ns / 1e6  # all of it one after the other
    26.0
    >>> model.with_prefetch().period_ns / 1e6  # the consumer's 3 ms beside the other 23
    23.0
    >>> model.with_calls(1, 4).with_prefetch().period_ns / 1e6
    5.0

Nothing is faster than the processor time that it takes, shared by the cores; what calls Python has
one interpreter for all of its calls.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

__all__ = ["Model", "PipelineChange", "StageCost", "changes"]

_MOST_CALLS: Final = 16
_UNSURE: Final = 0.05
"""A prediction is never surer than this part of it."""
_WORTH: Final = 0.03
"""A change that saves a smaller part of the time between elements is not worth a word."""


@dataclass(frozen=True, slots=True)
class StageCost:
    """A stage, in nanoseconds of its own per element that the whole pipeline puts out.

    `calls` is how many calls of its function run at once: 0 of a stage that runs on the thread that
    asks it. `inputs` are places in the model's `steps`. `python`: its function calls Python.
    """

    stage: str
    own_ns: float
    calls: int = 0
    inputs: tuple[int, ...] = ()
    function: bool = False
    python: bool = False
    buffers: bool = False
    """It has a thread that works ahead (prefetch), and no calls."""

    @property
    def asynchronous(self) -> bool:
        """Whether what comes before it runs on another thread than what asks it."""
        return self.calls > 0 or self.buffers


@dataclass(frozen=True, slots=True)
class PipelineChange:
    """A change of a pipeline, and what it would save per element that is taken.

    `key` is "parallel", "prefetch", "parallel and prefetch" or "cache"; `stage` the place of the
    stage that it is about. `saves_ns` lies between `low_ns` and `high_ns`: for how well the model
    tells the time as it was recorded, and for what it cannot know. `calls` are the parallel ones.
    """

    key: str
    stage: int
    saves_ns: float
    low_ns: float
    high_ns: float
    calls: int = 0
    bytes: int = 0
    """What a cache would hold, as far as it was recorded."""


@dataclass(frozen=True, slots=True)
class Model:
    """A pipeline and what takes its elements, which is busy for `consumer_ns` with each.

    `cpu_ns` is the processor time of the whole process per element, on `cores`; 0 where it is not
    known. The last of `steps` is the one that is asked.
    """

    steps: tuple[StageCost, ...]
    consumer_ns: float
    cpu_ns: float = 0.0
    cores: int = 1
    python_ns: float = field(default=0.0)
    """What of `cpu_ns` holds the interpreter, at most: calls cannot share that."""

    def threads(self) -> list[tuple[float, list[int]]]:
        """How long each thread is busy with an element, and its stages; what takes them is first.

        An asynchronous stage's calls are a thread of their own: all of them together.
        """
        found: list[tuple[float, list[int]]] = [(self.consumer_ns, [])]
        waiting = [(len(self.steps) - 1, 0)]
        while waiting:
            place, thread = waiting.pop()
            step = self.steps[place]
            if step.asynchronous:
                found.append((step.own_ns / max(1, step.calls), [place]))
                found.append((0.0, []))
                thread = len(found) - 1
            else:
                busy, places = found[thread]
                found[thread] = (busy + step.own_ns, [*places, place])
            waiting += [(number, thread) for number in step.inputs]
        return found

    @property
    def period_ns(self) -> float:
        """The time from one element to the next."""
        busiest = max(busy for busy, _ in self.threads())
        return max(busiest, self.cpu_ns / self.cores)

    @property
    def most_calls(self) -> int:
        """So many calls at once keep the cores busy; more where calls wait rather than work."""
        work = self.consumer_ns + sum(step.own_ns for step in self.steps)
        working = self.cpu_ns / work if self.cpu_ns and work else 1.0
        return max(2, min(_MOST_CALLS, round(self.cores / max(min(working, 1.0), 0.01))))

    @property
    def limit(self) -> int | None:
        """The place of the stage that decides; None where what takes the elements does."""
        busy, places = max(self.threads(), key=lambda thread: thread[0])
        found = max(places, key=lambda place: self.steps[place].own_ns, default=None)
        if found is None or self.steps[found].own_ns < _WORTH * busy:
            return None
        return found

    def with_calls(self, place: int, calls: int) -> Model:
        """With so many parallel calls of a stage's function."""
        return self._with(place, replace(self.steps[place], calls=calls))

    def with_prefetch(self) -> Model:
        """With a prefetch at its end."""
        last = StageCost("prefetch", 0.0, inputs=(len(self.steps) - 1,), buffers=True)
        return replace(self, steps=(*self.steps, last))

    def with_cache(self, place: int) -> Model:
        """With the elements of a stage kept, from the second time on."""
        kept = {place}
        waiting = [place]
        while waiting:
            inputs = self.steps[waiting.pop()].inputs
            kept.update(inputs)
            waiting += inputs
        spared = sum(self.steps[number].own_ns for number in kept)
        steps = tuple(
            replace(step, own_ns=0.0, calls=0, buffers=False) if number in kept else step
            for number, step in enumerate(self.steps)
        )
        return replace(self, steps=steps, cpu_ns=max(0.0, self.cpu_ns - spared), python_ns=0.0)

    def _with(self, place: int, step: StageCost) -> Model:
        steps = list(self.steps)
        steps[place] = step
        return replace(self, steps=tuple(steps))


def changes(
    model: Model, period_ns: float, error_ns: float, sizes: tuple[int, ...]
) -> list[PipelineChange]:
    """What would make a pipeline faster, the best first; nothing where its consumer decides.

    `period_ns` is what was measured, give or take `error_ns`; `sizes` are the bytes that each stage
    put out in all.

    >>> slow = Step("map", own_ns=20e6, function=True)
    >>> found = changes(Model((slow,), consumer_ns=1e6, cores=4), 21e6, 0.5e6, (0,))
    >>> [(change.key, change.calls, round(change.saves_ns / 1e6, 1)) for change in found[:2]]
    [('cache', 0, 20.0), ('parallel and prefetch', 4, 16.0)]
    """
    place = model.limit
    if place is None:
        return []
    told_ns = model.period_ns
    # What the model does not know of the time as it is, it does not know of another either.
    unknown_ns = abs(told_ns - period_ns) + error_ns
    step = model.steps[place]
    ahead = model.steps[-1].asynchronous

    def change(key: str, changed: Model, calls: int = 0, size: int = 0) -> PipelineChange:
        best = max(0.0, told_ns - changed.period_ns)
        held = min(changed.python_ns, step.own_ns) if calls else 0.0
        worst = max(0.0, told_ns - max(changed.period_ns, held))
        likely = worst if held else best
        unsure = unknown_ns + _UNSURE * best
        low, high = min(worst, likely) - unsure, max(best, likely) + unsure
        return PipelineChange(key, place, likely, max(0.0, low), min(period_ns, high), calls, size)

    found = [change("cache", model.with_cache(place), size=sizes[place])]
    if step.function:
        now = max(1, step.calls)
        rest = model.with_calls(place, 1 << 30)
        needed = rest.period_ns if ahead else rest.with_prefetch().period_ns
        enough = int(-(-step.own_ns // max(needed, 1.0)))
        calls = max(2, min(enough, model.most_calls))
        if calls > now:
            more = model.with_calls(place, calls)
            found.append(change("parallel", more, calls))
            if not ahead:
                found.append(change("parallel and prefetch", more.with_prefetch(), calls))
    if not ahead:
        found.append(change("prefetch", model.with_prefetch()))
    worth = [
        one for one in found if max(one.saves_ns, one.high_ns - unknown_ns) > _WORTH * period_ns
    ]
    return sorted(worth, key=lambda one: (-round(one.saves_ns), one.key == "parallel"))
