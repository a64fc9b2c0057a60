"""Stands in for a model, so that the claims desk needs no key and no network.

It turns what was typed into a tool call where that can be read in one way only, and asks again where not.  It knows no
rule of the desk: what is right is for the tools to say.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Final, final

from ezgraph import ToolCall
from ezgraph.models import Call, ModelReply, ModelRequest, call

MEANINGS: Final = {
    "accept": "yes yse ye yep yeah y ok okay sure agree agreed accept deal ja oui sí 是 是的 好 好的 👍 ✅",
    "decline": "no nope nah n nein non nee decline refuse reject disagree 不 不是 👎 ❌",
    "end_session": "bye goodbye quit exit tschüss ciao 再见",
    "": "hello hi hey hallo please thank thanks you danke bitte i it the that offer",
}
CURRENCIES: Final = {
    **dict.fromkeys(("€", "eur", "euro", "euros", "欧元"), "EUR"),
    **dict.fromkeys(("$", "usd", "dollar", "dollars"), "USD"),
    **dict.fromkeys(("£", "gbp", "pound", "pounds"), "GBP"),
}
LONGEST: Final = 500

_WORD = re.compile(r"[\w'-]+|[^\s.,;:!\u3002\uff0c\uff01]")
_SIGN = "|".join(re.escape(name) for name in sorted(CURRENCIES, key=len, reverse=True))
_ENDS = rf"\b(?![.,']\d| ?(?:{_SIGN})(?! ?\d))"  # not within an amount
_TRACKING = re.compile(rf"\b(?=(?:[ -]?\w){{8}})[a-z]{{2}}[ -]?\d\w{{2,}}{_ENDS}(?:[ -]\d{{3,}}{_ENDS})*")
_AMOUNT = re.compile(rf"(?:(?<![a-z])({_SIGN}) ?|(?<![\w.,-]))(-?\d(?:[\d.,' -]*\d)?)(?: ?({_SIGN}))?(?![a-z\d])")
_DIGITS = re.compile(r"(-?\d{1,3}(?:([ .,'])\d{3})(?:\2\d{3})*|-?\d+)(?:([.,])(\d{1,2}))?")
_VAGUE = re.compile(r"\b(?:cents?|hundred|thousand|tausend|million)\b")
_WHAT_IF = re.compile(r"\bwhat if\b|\bhow much (?:would|will|do)\b|\bwould you pay\b|\bwas wäre\b|假如")


@final
class Reader:
    """A `Model` without a model.  The last line of a node's prompt is the question it asks."""

    async def respond(self, request: ModelRequest, /) -> ModelReply:
        """Answer with one tool call, or with a question."""
        last, question = request.messages[-1], request.prompt.splitlines()[-1]
        if last.role == "tool":
            return ModelReply(last.text)  # the tool's own words say what is wrong
        if request.node == "Tracing":
            return _calling(request, call("last_seen", place=last.text.rsplit("; ", 1)[-1].removesuffix(".")))
        if last.internal:
            return ModelReply(question)
        found = understood(last.text)
        if isinstance(found, Call) and any(tool.name == found.name for tool in request.tools):
            return _calling(request, found)
        return ModelReply(f"{found if isinstance(found, str) else 'That does not fit here.'} {question}".lstrip())


def _calling(request: ModelRequest, wanted: Call) -> ModelReply:
    return ModelReply(calls=(ToolCall(f"call-{len(request.messages)}", wanted.name, wanted.arguments),))


def understood(text: str) -> Call | str:
    """The tool call that a customer's words ask for, or what to say before asking again."""
    if len(text) > LONGEST:
        return "That is a long message, and I am afraid of misreading it. In a sentence or two, please:"
    said = " ".join(text.casefold().split())
    meanings = {_meaning(word) for word in _WORD.findall(said)}
    if "?" not in meanings:
        wanted = meanings - {""}
        if len(wanted) == 1:
            name = wanted.pop()
            return call(name, farewell="Goodbye.") if name == "end_session" else call(name)
        return "Is that a yes or a no?" if wanted else ""
    return _facts(said)


def _meaning(word: str) -> str:
    """The tool that a word stands for, "" for a filler, "?" for anything else."""
    known = {_squeezed(w): meaning for meaning, words in MEANINGS.items() for w in words.split()}
    word = _squeezed(word)
    if word in known:
        return known[word]
    long = [w for w in known if len(w) > 4 and w[0] == word[0] and known[w] in {"accept", "decline"}]
    near = get_close_matches(word, long, n=1, cutoff=0.85) if len(word) > 4 else []
    return known[near[0]] if near else "?"


def _squeezed(word: str) -> str:
    return re.sub(r"(.)\1+", r"\1", word)


def _facts(said: str) -> Call | str:
    """A call with the tracking number and the amount in a message, each told once."""
    numbers = [found.group() for found in _TRACKING.finditer(said)]
    rest = _TRACKING.sub(" ", said).strip(" .,;:!?")
    figures = list(_AMOUNT.finditer(rest))
    amounts = [m for m in figures if m[1] or m[3] or m.group() == rest]
    if len(numbers) > 1 or (amounts and (len(figures) > 1 or _VAGUE.search(rest))):
        return "I would not like to guess which one you mean. One tracking number, and one amount in figures, please."
    arguments: dict[str, object] = {"tracking": numbers[0]} if numbers else {}
    for amount in amounts:
        worth = _decimal(amount[2])
        signs = {CURRENCIES[sign] for sign in (amount[1], amount[3]) if sign}
        if worth is None or len(signs) > 1:
            return f'I can read "{amount.group().strip()}" in more than one way. Please write it like 1234.50 EUR.'
        arguments |= {"worth": worth, "currency": signs.pop() if signs else "EUR"}
    if _WHAT_IF.search(said) and not numbers:
        return call("what_if", **arguments) if amounts else "For how much? Name an amount, like 80 EUR."
    return call("describe", **arguments) if arguments else "I found neither a number nor an amount in that."


def _decimal(figures: str) -> str | None:
    """Figures with a decimal point, or None where the separators could mean two things."""
    parts = _DIGITS.fullmatch(figures)
    if parts is None:
        return None
    whole, separator, point, cents = parts.groups()
    if separator and (separator == point or (not point and separator in ".," and whole.count(separator) == 1)):
        return None
    return re.sub("[ .,']", "", whole) + (f".{cents}" if cents else "")
