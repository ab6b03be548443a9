"""What `scaler load` says on the way: what it sends, how far it is, what to make of it."""

from __future__ import annotations

from collections.abc import Callable

from scaler.adapters.load_ledger import Ledger
from scaler.adapters.openai_client import Model
from scaler.adapters.openai_dialect import Dialect
from scaler.cli.load_plan import Plan, Run
from scaler.config.quantities import written
from scaler.simulation.requests import Ending

Say = Callable[[str], None]

_SHORT = 0.95


def introduce(plan: Plan, model: Model, dialect: Dialect, say: Say) -> None:
    """Say what is about to be sent, and what this server cannot be asked for."""
    work = plan.workload
    for note in dialect.notes:
        say(f"note: {note}")
    if model.longest is not None:
        rows = work.trace.rows
        over = sum(row.prompt + row.output > model.longest for row in rows) / len(rows)
        fate = "they are sent shortened" if plan.clip else "the server may refuse them (--clip)"
        if over:
            say(
                f"note: {over:.1%} of the trace's requests are longer than the model's context "
                f"of {model.longest} tokens: {fate}"
            )
    say(
        f"sending {work.trace.name} under {work.profile.name} to {plan.endpoint.url} (model "
        f"{model.name}) for {written(work.length)}; Ctrl-C ends it"
    )


def progress_line(ledger: Ledger, open_now: int) -> str:
    """Write where a test stands."""
    outcomes = ledger.outcomes
    if not outcomes.arrived:
        return f"warming up  sent {ledger.warming}  open {open_now}"
    ended = outcomes.total_ended + ledger.unsent
    kept = f"{outcomes.attained / ended:.1%} of those ended kept the SLO" if ended else ""
    counts = "  ".join(f"{ending.replace('_', ' ')} {outcomes.ended[ending]}" for ending in Ending)
    loud = f"  NOT SENT {ledger.unsent}" if ledger.unsent else ""
    return f"arrived {outcomes.arrived}  open {open_now}  {counts}{loud}  {kept}".rstrip()


def conclude(run: Run, say: Say) -> None:
    """Say what the numbers alone do not."""
    ledger, plan = run.ledger, run.plan
    if run.interrupted and ledger.unfinished:
        say(f"left early: {ledger.unfinished} requests were open, and count as missed")
    for kind, message in ledger.messages.items():
        say(f"the first {kind} said: {message}")
    if ledger.unsent:
        say(
            f"!!! {ledger.unsent} of {ledger.outcomes.arrived} requests COULD NOT BE SENT: "
            f"{plan.most_open} were open (--max-in-flight), or this machine had no more "
            "connections; they count as missed"
        )
    elif run.behind:
        late = ledger.late.quantile(0.99) or 0.0
        say(
            f"!!! this machine did not keep up: 1 % of the requests went out {late:.2g} s late or "
            "more (--max-late); their latencies include that, and are not the server's alone"
        )
    if ledger.outcomes.tokens < _SHORT * ledger.asked_output:
        share = ledger.outcomes.tokens / ledger.asked_output
        say(f"!!! outputs were shorter than the trace's: {share:.0%} of the tokens")
    if ledger.asked_prompt and abs(ledger.counted_prompt / ledger.asked_prompt - 1) > 1 - _SHORT:
        share = ledger.counted_prompt / ledger.asked_prompt
        say(f"!!! prompts had other lengths than the trace's: {share:.0%} of the tokens")
