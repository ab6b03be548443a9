r"""Reads PromQL label matchers, `app="chat",tier=~"gold|silver"`, without braces or a metric name.

Own, because what promql-parser checks regular expressions with is not RE2, and it refuses raw
strings such as `a\d`.
"""

from __future__ import annotations

import re

from scaler.config import regex
from scaler.config.faults import Unreadable, shortened
from scaler.core.workload import Matcher, MatchOp

_TOKEN = re.compile(
    r"""\s*(?P<label>[A-Za-z_][A-Za-z0-9_]*)\s*(?P<op>=~|!~|!=|=)\s*"""
    r"""(?P<value>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)\s*(?P<comma>,\s*|$)""",
)
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\\"'])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|(.))",
    re.DOTALL,
)
_PLAIN = dict(zip("abfnrtv\\\"'", "\a\b\f\n\r\t\v\\\"'", strict=True))
_WRITE = 'write PromQL matchers such as app="chat",tier=~"gold|silver"'
_MOST = 32
_NOT_ALLOWED = {
    "namespace": (
        "names a namespace, but the namespace is always the ScaledObject's own",
        "leave the namespace matcher out",
    ),
    "__name__": (
        "names a metric, but which metrics are read is the scaler's own knowledge",
        "leave the __name__ matcher out",
    ),
    "le": (
        "names a histogram's bucket edge, without which a latency cannot be computed",
        "leave the le matcher out",
    ),
}


def matchers(text: str) -> tuple[Matcher, ...]:
    """Return the matchers sorted and without doubles. Raises Unreadable."""
    text = text.strip()
    if text.startswith("{"):
        raise Unreadable("is in braces", f"leave the braces out: {_WRITE}")
    found: set[Matcher] = set()
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise Unreadable(f"cannot be read at {_place(text, at)}", _WRITE)
        found.add(_matcher(token["label"], token["op"], token["value"]))
        at = token.end()
    if not found:
        raise Unreadable("has no matcher", _WRITE)
    if len(found) > _MOST:
        raise Unreadable(f"has more than {_MOST} matchers", "select by fewer labels")
    return _selecting(found)


def _selecting(found: set[Matcher]) -> tuple[Matcher, ...]:
    """Refuse what selects everything or nothing."""
    if all(_matches_absent(matcher) for matcher in found):
        raise Unreadable("selects every series", 'name one label that is not empty, as app="chat"')
    literal: dict[str, str] = {}
    for matcher in sorted(found):
        if matcher.op is MatchOp.EQUAL and literal.setdefault(matcher.label, matcher.value) != (
            matcher.value
        ):
            raise Unreadable(
                f"asks {matcher.label} to have two values at once",
                f'write {matcher.label}=~"one|other" for either',
            )
    return tuple(sorted(found))


def _matcher(label: str, op: str, literal: str) -> Matcher:
    if label in _NOT_ALLOWED:
        raise Unreadable(*_NOT_ALLOWED[label])
    matcher = Matcher(label=label, op=MatchOp(op), value=_unquoted(literal))
    if matcher.op in (MatchOp.REGEX, MatchOp.NOT_REGEX):
        fault = regex.fault_of(matcher.value)
        if fault is not None:
            raise Unreadable(f"has an invalid regular expression for {label}: {fault}", "use RE2")
    return matcher


def _matches_absent(matcher: Matcher) -> bool:
    """Say whether the matcher also takes series that lack the label."""
    if matcher.op is MatchOp.EQUAL:
        return not matcher.value
    if matcher.op is MatchOp.NOT_EQUAL:
        return bool(matcher.value)
    matched = regex.matches(matcher.value, "")
    return matched if matcher.op is MatchOp.REGEX else not matched


def _unquoted(literal: str) -> str:
    body = literal[1:-1]
    return body if literal[0] == "`" else _ESCAPE.sub(_meant, body)


def _meant(escape: re.Match[str]) -> str:
    simple, two, four, eight, octal, unknown = escape.groups()
    if unknown is not None:
        raise Unreadable(
            f"has the unknown escape \\{shortened(unknown)}",
            f"double the backslash: \\\\{shortened(unknown)}",
        )
    if simple is not None:
        return _PLAIN[simple]
    code = int(octal, 8) if octal is not None else int(two or four or eight, 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:  # noqa: PLR2004 - Unicode's own limits
        raise Unreadable("escapes what is no character", "write the character itself")
    return chr(code)


def _place(text: str, at: int) -> str:
    rest = text[at:].strip()
    return f'"{shortened(rest, 20)}"' if rest else "its end"
