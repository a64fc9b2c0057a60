"""A claims desk for damaged parcels: it takes a report, checks it on two sides at once, makes an offer and settles it.

    python examples/claims.py                          on a terminal a chat, otherwise a conversation from a script
    python -m ezgraph chat examples/claims.py:app      the same desk, line by line
    python -m ezgraph draw examples/claims.py:claims   its drawing

Sessions are kept in `claims.db`, in the current folder: stop it anywhere, and the next run goes on from there.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from decimal import Decimal
from typing import Final, TypeVar

from attrs import evolve, frozen
from reader import Reader

from ezgraph import (
    END,
    Context,
    Conversation,
    Direct,
    DirectTo,
    Fanout,
    Finish,
    Go,
    Graph,
    GraphNode,
    Message,
    StageContext,
    Stay,
    TaskResult,
    UnknownSession,
    Worker,
    direct,
    direct_to,
    fanout,
    finish,
    go,
    instruction,
    stay,
    task_result,
    tool,
)
from ezgraph.cli import chat
from ezgraph.stores.sqlite import SQLiteStore

DOORSTEP: Final = "your doorstep"
ROUTE: Final = ("Bremen", "Kassel", "Ulm", DOORSTEP)
HIGHEST: Final = Decimal(5000)
COVER: Final = Decimal("0.9")

# ------------------------------------------------------------------------------------------ what the desk keeps in mind


@frozen
class Report:
    """What the customer says of the parcel, as far as it is known."""

    tracking: str = ""
    worth: Decimal | None = None


@frozen
class Sighting:
    """Where the parcel was scanned last."""

    place: str


@frozen
class Offer:
    """What the desk would pay, and for which parcel."""

    tracking: str
    place: str
    amount: Decimal


State = TypeVar("State")

# ------------------------------------------------------------------------------------------------------ the house rules


def misread(tracking: str) -> str | None:
    """Why it is no tracking number: two letters and eight digits, the last of which sums up the others."""
    letters, digits = tracking[:2], tracking[2:]
    if len(digits) != 8 or not (tracking.isascii() and letters.isalpha() and digits.isdigit()):
        return f"{tracking} is no tracking number: those have two letters and eight digits, like LP20406619."
    if sum(map(int, digits[:7])) % 10 != int(digits[7]):
        return f"{tracking} cannot be right: its digits do not add up. Please compare it with the label."
    return None


def uninsurable(worth: Decimal, currency: str) -> str | None:
    """Why a declared value cannot be taken."""
    if currency != "EUR":
        return f"We reckon in euros, not in {currency}. How much is that in EUR?"
    if not 1 <= worth <= HIGHEST:
        return f"We insure goods worth 1 to {HIGHEST} EUR, and {worth:,} EUR is outside. What were they worth?"
    return None


def cover(worth: Decimal) -> Decimal:
    """What is paid for goods of that worth."""
    return (worth * COVER).quantize(Decimal("0.01"))


def carrier_log(tracking: str) -> str:
    """Where a parcel was scanned.  A carrier's system would know; here it is read from the number itself."""
    return f"Scans of {tracking}: {'; '.join(ROUTE[: int(tracking[-2]) % 4 + 1])}."


# ----------------------------------------------------------------------------------------------------------- the stages


class Desk(Conversation[State]):
    """What both desks can do."""

    @tool
    def what_if(self, ctx: Context[State], worth: Decimal, currency: str = "EUR") -> Direct | Stay:
        """Say what would be paid, without writing anything down.

        Args:
            worth: The value to try.
            currency: Its three-letter code.
        """
        if wrong := uninsurable(worth, currency):
            return stay(wrong)
        return direct(f"For goods worth {worth:.2f} EUR we would pay {cover(worth)} EUR. Nothing is written down yet.")


class Intake(Desk[Report]):
    """Takes the report."""

    def prompt(self, ctx: Context[Report]) -> str:
        return f"Ask for what is missing, and call describe with what you are told.\n{question(ctx.state)}"

    @tool
    def describe(
        self, ctx: Context[Report], tracking: str = "", worth: Decimal | None = None, currency: str = "EUR"
    ) -> Fanout[Valuation | Tracing] | Direct | Stay:
        """Write down what the customer says of the parcel; leave out what was not said.

        Args:
            tracking: The number on the label.
            worth: What the goods were worth.
            currency: The three-letter code that goes with it.
        """
        report = ctx.state
        tracking = tracking.replace(" ", "").replace("-", "").upper()
        wrong = [misread(tracking) if tracking else None, uninsurable(worth, currency) if worth is not None else None]
        if tracking and not wrong[0]:
            report = evolve(report, tracking=tracking)
        if worth is not None and not wrong[1]:
            report = evolve(report, worth=worth)
        ctx.save(report)
        if any(wrong):
            return stay(" ".join(filter(None, wrong)))
        if report.tracking and report.worth is not None:
            return fanout(Valuation, Tracing)
        return direct(f"Thank you, that is written down. {question(report)}")


def question(report: Report) -> str:
    """What to ask for next."""
    if not report.tracking:
        return "What is the tracking number on the label?"
    if report.worth is None:
        return f"What were the goods in {report.tracking} worth, in euros?"
    return f"I have {report.tracking}, worth {report.worth:.2f} EUR. Which of the two is to be corrected, and to what?"


class Review(GraphNode[None]):
    """Puts both findings together."""

    def run(self, ctx: StageContext[None]) -> Go[Settlement] | DirectTo[Intake]:
        report, amount, sighting = ctx.read(Intake), ctx.result(Valuation), ctx.result(Tracing)
        if sighting.place == DOORSTEP:
            text = f"{report.tracking} was handed over at {DOORSTEP}, unharmed. Do you have another tracking number?"
            return direct_to(Intake, text).with_state(evolve(report, tracking=""))
        offer = Offer(report.tracking, sighting.place, amount)
        return go(Settlement).with_state(offer).with_message(instruction("Make the offer."))


class Settlement(Desk[Offer]):
    """Makes the offer, and takes the answer."""

    def prompt(self, ctx: Context[Offer]) -> str:
        offer = ctx.state
        return (
            "Make the offer; call accept or decline on a plain answer only.\n"
            f"{offer.tracking} was last seen in {offer.place}. We can pay {offer.amount} EUR. Do you accept, yes or no?"
        )

    @tool
    def accept(self, ctx: Context[Offer]) -> Finish:
        """The customer accepts the offer."""
        return finish(f"Thank you. {ctx.state.amount} EUR for {ctx.state.tracking} will be with you in three days.")

    @tool
    def decline(self, ctx: StageContext[Offer]) -> DirectTo[Intake]:
        """The customer does not accept, or wants to correct something."""
        return direct_to(Intake, f"Then nothing is paid yet. {question(ctx.read(Intake))}")


# ---------------------------------------------------------------------------------------------------------- the workers


class Valuation(Worker[None, Decimal]):
    """Computes what would be paid."""

    def run(self, ctx: Context[None]) -> TaskResult[Decimal]:
        worth = ctx.read(Intake).worth
        return task_result(cover(worth or Decimal(0)))


class Tracing(Worker[None, Sighting]):
    """Reads the carrier's log, and calls last_seen with the last place in it."""

    def on_enter(self, ctx: Context[None], message: Message | None) -> str:
        return carrier_log(ctx.read(Intake).tracking)

    @tool
    def last_seen(self, ctx: Context[None], place: str) -> TaskResult[Sighting] | Stay:
        """Report where the parcel was scanned last.

        Args:
            place: As the log has it.
        """
        if place not in ROUTE or place not in carrier_log(ctx.read(Intake).tracking):
            return stay(f"The log does not have {place!r}. Read it again.")
        return task_result(Sighting(place))


claims = (
    Graph("claims", entry=Intake)
    .stages(Intake, Review, Settlement)
    .workers(Valuation, Tracing)
    .join((Valuation, Tracing), to=Review)
)
app = claims.compile(store=SQLiteStore("claims.db"), model=Reader(), end_session=[Intake, Settlement])

# ----------------------------------------------------------------------------------------------------------- the script

SCRIPT: Final = (
    "Hello!",
    "My parcel arrived in pieces 😢",
    "How much would you pay for something worth 120,00 euros?",
    "yes please",  # nothing is offered yet
    "The number is LP-123-456",  # too short
    "Sorry: lp 1234 5679",  # its last digit is wrong
    "LP-1234-5678, that is it",
    "The vase was worth 80 dollars",
    "Well, 1.234 euros",  # one thousand, or one and a bit?
    "I mean 12.340,00 €",  # more than can be insured
    "129,9 EUR",  # both findings come in; this parcel was delivered
    "Oh, that was the neighbour's. Mine is LP 2040 6619.",
    "What if it was worth 200 EUR?",
    "no",  # back to the intake
    "It was worth EUR 149.90 with the postage",
    "Yess please!",
)


async def play(session: str) -> None:
    """Play the script from where the session stands."""
    try:
        found = await app.aload(session)
    except UnknownSession:
        played = 0
    else:
        if app.unfinished(found):
            print("(going on with what was interrupted)")
            print(f"desk:     {(await app.arecover(session)).reply}")
            found = await app.aload(session)
        messages = [message for history in found.histories.values() for message in history]
        played = sum(message.role == "user" and not message.internal for message in messages)
        if found.head.cursor == END:
            print(f"Claim {session!r} is completed. Start another: python examples/claims.py --session NAME")
            return
    for line in SCRIPT[played:]:
        print(f"customer: {line}")
        print(f"desk:     {(await app.ainvoke(line, session=session)).reply}")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description="A claims desk for damaged parcels.")
    arguments.add_argument("--session", default="claim-1", help="which claim; a new name begins a new one")
    name: str = arguments.parse_args().session
    if sys.stdin.isatty():
        sys.exit(chat(app, name))
    asyncio.run(play(name))
