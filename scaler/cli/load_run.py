"""Runs one load test: learns what the server takes, drives it, and tells how it goes."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import secrets
import signal

from scaler.adapters.load_ledger import Ledger
from scaler.adapters.open_loop import OpenLoop
from scaler.adapters.openai_client import Model, OpenAiClient
from scaler.adapters.openai_dialect import OpenAiSender, Wanted, learn_dialect
from scaler.adapters.openai_errors import EndpointRefused
from scaler.cli.load_plan import CannotRun, Plan, Run
from scaler.cli.load_progress import Say, conclude, introduce, progress_line
from scaler.control.ports import Clock
from scaler.core.units import Seconds
from scaler.simulation.workloads import Workload

_TOLD_EVERY: Seconds = 10.0
_FIRST_WITHIN: Seconds = 120.0
_OTHER_FILES = 100


def make_room(most_open: int) -> None:
    """Let this process have as many connections. Raises CannotRun."""
    wanted = most_open + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= wanted or soft == resource.RLIM_INFINITY:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise CannotRun(
            f"this process may open {hard} files, too few for --max-in-flight {most_open}: "
            f"raise the limit (ulimit -n), or give {max(1, hard - _OTHER_FILES)} at most"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def drive(plan: Plan, say: Say, clock: Clock) -> Run:
    """Run the test to its end, or to Ctrl-C or SIGTERM. Raises EndpointError before it begins."""
    async with OpenAiClient(plan.endpoint, clock.now) as client:
        model = await _model(client, plan.model)
        # A salt of its own for each test: the prompts of the last one may be in the server's cache.
        wanted = Wanted(
            api=plan.api, model=model.name, salt=secrets.token_hex(8), shared=plan.shared
        )
        dialect = await learn_dialect(client, wanted, within=_FIRST_WITHIN)
        introduce(plan, model, dialect, say)
        ledger = Ledger(slo=plan.slo, warm_up=plan.warm_up, every=plan.every, longest=model.longest)
        loop = OpenLoop(
            sender=OpenAiSender(
                client=client, dialect=dialect, fit_into=model.longest if plan.clip else None
            ),
            clock=clock,
            ledger=ledger,
            most_open=plan.most_open,
        )
        begun = clock.now()
        interrupted = await _Watched(loop, ledger, clock, say).run(plan.workload)
    run = Run(
        plan=plan,
        model=model.name,
        ledger=ledger,
        elapsed=clock.now() - begun,
        interrupted=interrupted,
    )
    conclude(run, say)
    return run


async def _model(client: OpenAiClient, wanted: str | None) -> Model:
    """Choose the model; one that is named need not be listed by a server that lists none."""
    try:
        models = await client.models()
    except EndpointRefused:
        if wanted is None:
            raise
        return Model(name=wanted, longest=None)
    if wanted is None:
        return models[0]
    found = next((model for model in models if model.name == wanted), None)
    if found is None:
        names = ", ".join(model.name for model in models[:10])
        raise EndpointRefused(f"the server has no model {wanted!r}; it lists {names}")
    return found


class _Watched:
    """A loop with its progress told, that signals can end."""

    def __init__(self, loop: OpenLoop, ledger: Ledger, clock: Clock, say: Say) -> None:
        self._loop = loop
        self._ledger = ledger
        self._clock = clock
        self._say = say
        self._interrupted = False

    async def run(self, workload: Workload) -> bool:
        """Run the loop; return whether somebody ended it early."""
        progress = asyncio.create_task(self._tell())
        work = asyncio.create_task(self._loop.run(workload.requests()))
        events = asyncio.get_running_loop()
        # Elsewhere than in the main thread no signal can come.
        with contextlib.suppress(RuntimeError, ValueError, NotImplementedError):
            events.add_signal_handler(signal.SIGINT, self._interrupt, work)
            events.add_signal_handler(signal.SIGTERM, self._end, work)
        try:
            await work
        except asyncio.CancelledError:
            if not self._interrupted:
                raise
        finally:
            progress.cancel()
            work.cancel()
        return self._interrupted

    def _interrupt(self, work: asyncio.Task[None]) -> None:
        """Let what is open come to its end the first time, and not the second."""
        if self._interrupted or not self._loop.stop():
            self._end(work)
            return
        self._interrupted = True
        self._say(
            f"no more requests are sent; {self._loop.open} are open and come to their ends "
            "(Ctrl-C again to leave them)"
        )

    def _end(self, work: asyncio.Task[None]) -> None:
        self._interrupted = True
        work.cancel()

    async def _tell(self) -> None:
        begun = at = self._clock.now()
        while True:
            at += _TOLD_EVERY
            await self._clock.sleep_until(at)
            self._say(f"{at - begun:7.0f} s  {progress_line(self._ledger, self._loop.open)}")
