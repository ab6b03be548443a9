"""A token-by-token engine: slow, plain, and what the fast one must agree with."""

from __future__ import annotations

from dataclasses import dataclass, field

from scaler.simulation.requests import Request
from scaler.simulation.shapes import EngineShape


@dataclass
class Job:
    """A request inside the plain engine."""

    request: Request
    prefill: int
    computed: int = 0
    made: int = 0
    blocks: int = 0
    first_token_at: float | None = None
    ended_at: float | None = None


@dataclass
class PlainEngine:
    """One step at a time, one request at a time; every request waits until it is served."""

    shape: EngineShape
    now: float = 0.0
    running: list[Job] = field(default_factory=list)
    waiting: list[Job] = field(default_factory=list)
    preemptions: int = 0

    @property
    def free(self) -> int:
        """Return the blocks that nobody holds."""
        return self.shape.blocks - sum(job.blocks for job in self.running)

    def run(self, requests: list[Request]) -> dict[int, Job]:
        """Serve all requests and return what happened to each."""
        inbox = [Job(request, request.prompt) for request in requests]
        done: dict[int, Job] = {}
        while inbox or self.waiting or self.running:
            if not self.waiting and not self.running:
                self.now = max(self.now, inbox[0].request.arrived)
            while inbox and inbox[0].request.arrived <= self.now:
                self.waiting.append(inbox.pop(0))
            for job in self.step():
                done[job.request.number] = job
        return done

    def step(self) -> list[Job]:
        """Make one step and return the requests that it finished."""
        work, preempted = self.decode_work()
        budget = self.shape.max_num_batched_tokens - len(work)
        for job in self.running:
            if job.computed < job.prefill and job not in [j for j, _ in work] and budget > 0:
                chunk = min(budget, job.prefill - job.computed)
                work.append((job, chunk))
                budget -= chunk
        while budget > 0 and not preempted and self.waiting:
            job = self.waiting[0]
            need = self.shape.blocks_for(job.prefill)
            if len(self.running) >= self.shape.max_num_seqs or need > self.free:
                break
            self.running.append(self.waiting.pop(0))
            job.blocks = need
            chunk = min(budget, job.prefill)
            work.append((job, chunk))
            budget -= chunk
        tokens = sum(chunk for _, chunk in work)
        cost = self.shape.cost
        self.now += cost.of(tokens, len(work), sum(job.computed for job, _ in work))
        for job, chunk in work:
            if job.computed + chunk <= job.prefill:
                self.now += cost.per_attention_pair * chunk * (job.computed + chunk / 2)
        return self.hand_out(work)

    def decode_work(self) -> tuple[list[tuple[Job, int]], bool]:
        """Take blocks for everybody who decodes, preempting the newest when there are none."""
        work: list[tuple[Job, int]] = []
        preempted = False
        for job in list(self.running):
            if job not in self.running or job.computed < job.prefill:
                continue
            need = self.shape.blocks_for(job.computed + 1) - job.blocks
            while need > self.free and job in self.running:
                victim = self.running.pop()
                victim.prefill = victim.request.prompt + victim.made
                victim.computed = victim.blocks = 0
                self.waiting.insert(0, victim)
                self.preemptions += 1
                preempted = True
            if job in self.running:
                job.blocks += need
                work.append((job, 1))
        return work, preempted

    def hand_out(self, work: list[tuple[Job, int]]) -> list[Job]:
        """Give out the tokens that a step made."""
        finished = []
        for job, chunk in work:
            job.computed += chunk
            if job.computed < job.prefill:
                continue
            job.made += 1
            if job.first_token_at is None:
                job.first_token_at = self.now
            if job.made >= job.request.output:
                job.ended_at = self.now
                job.blocks = 0
                self.running.remove(job)
                finished.append(job)
        return finished
