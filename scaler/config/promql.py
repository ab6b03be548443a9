"""Free PromQL that a trigger brings along, held to the trigger's own namespace.

Who may write a ScaledObject may not read every team's series: each selector of the query gets the
ScaledObject's namespace as a matcher, and a query that asks for another namespace is refused.
"""

from __future__ import annotations

import re

import promql_parser as promql

LONGEST_QUERY = 2000
"""Characters. Far longer than a demand query needs."""

MOST_OPERATORS = 80
"""Brackets and operators. The parser recurses on them and copies what is below each: a few thousand
overrun its stack, a thousand take gigabytes, two hundred a second."""

_OPERATOR = re.compile(r"[-+*/%^<>=!([]|\b(?:and|or|unless|atan2)\b", re.IGNORECASE)

_LONGEST_PINNED = 10 * LONGEST_QUERY
"""The printer indents what is nested: this bounds what a few brackets can grow to."""

NAMED = "name:"
"""A query that starts so is not PromQL: the rest names a query of the server's configuration."""


_SELECTOR = re.compile(r"([A-Za-z_:][\w:]*|)(\{?)(.*)", re.DOTALL)
"""A selector as the printer writes it: metric name, brace, the rest."""


class QueryInvalid(ValueError):
    """A query cannot be asked. The message says what is wrong with it and what to write."""


def named_query(query: str) -> str | None:
    """Return the name out of `name:x`; None where the query is PromQL itself."""
    stripped = query.strip()
    return stripped[len(NAMED) :].strip() if stripped.startswith(NAMED) else None


def pin_to_namespace(query: str, namespace: str, *, label: str = "namespace") -> str:
    """Return the query with `label="namespace"` in each of its selectors, in canonical PromQL.

    Raises QueryInvalid for what does not parse, selects nothing, is no number per series, or
    holds any other matcher on that label.
    """
    expression = parse_query(query)
    pinned = _pin(expression, namespace, label)
    text = str(pinned.prettify())
    _verify(text, namespace, label)
    return text


def parse_query(query: str) -> promql.Expr:
    """Return the query's expression. Raises QueryInvalid for what cannot be asked."""
    expression = _parse(query)
    _refuse_unusable(expression)
    return expression


def _parse(query: str) -> promql.Expr:
    if len(query) > LONGEST_QUERY:
        raise QueryInvalid(
            f"the query has {len(query)} characters, more than {LONGEST_QUERY}: "
            "record it as a rule in Prometheus and ask for the rule's name"
        )
    if len(_OPERATOR.findall(query)) > MOST_OPERATORS:
        raise QueryInvalid(f"the query has more than {MOST_OPERATORS} operators: write it shorter")
    try:
        return promql.parse(query)
    except ValueError as error:
        raise QueryInvalid(f"not valid PromQL: {error}") from error


def _refuse_unusable(expression: promql.Expr) -> None:
    if isinstance(expression, promql.MatrixSelector | promql.SubqueryExpr):
        raise QueryInvalid(
            "the query gives a range of values, not one: put a function such as "
            "sum_over_time() or rate() around it"
        )
    if "info" in _functions(expression):
        raise QueryInvalid("info() reads series that no selector names: join them with `* on`")
    found = selectors(expression)
    if not found:
        raise QueryInvalid("the query selects no series: a constant says nothing about demand")
    if any(selector.matchers.or_matchers for selector in found):
        raise QueryInvalid("`or` inside braces is not PromQL: write two selectors joined by `or`")


def _pin(expression: promql.Expr, namespace: str, label: str) -> promql.Expr:
    def pin(node: promql.Expr) -> promql.Expr:
        if isinstance(node, promql.VectorSelector):
            return _pinned(node, namespace, label)
        return node

    return promql.transform(expression, pin)


def _pinned(selector: promql.VectorSelector, namespace: str, label: str) -> promql.Expr:
    given = [matcher for matcher in selector.matchers.matchers if matcher.name == label]
    for matcher in given:
        if matcher.op != promql.MatchOp.Equal or matcher.value != namespace:
            raise QueryInvalid(
                f"the query may read {namespace} only, and `{selector.prettify()}` names {label} "
                f"itself: leave {label} out, it is added"
            )
    if given:
        return selector
    # A node's matchers can be read but not written, so the selector is parsed anew.
    head, brace, rest = _SELECTOR.findall(str(selector.prettify()))[0]
    pin = f"{label}={_quoted(namespace)}"
    return promql.parse(f"{head}{{{pin},{rest}" if brace else f"{head}{{{pin}}}{rest}")


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _verify(text: str, namespace: str, label: str) -> None:
    """Read the text back: what is sent must hold the pin, whatever the printer did."""
    expression = _parse_pinned(text)
    for selector in selectors(expression):
        wanted = [m for m in selector.matchers.matchers if m.name == label]
        if (
            selector.matchers.or_matchers
            or len(wanted) != 1
            or wanted[0].op != promql.MatchOp.Equal
            or wanted[0].value != namespace
        ):
            raise QueryInvalid("the query cannot be held to its namespace: write it more plainly")


def _parse_pinned(text: str) -> promql.Expr:
    if len(text) > _LONGEST_PINNED:
        raise QueryInvalid("the query nests too deeply: write it more plainly")
    try:
        expression = promql.parse(text)
    except ValueError as error:
        raise QueryInvalid(
            f"the query cannot be written back as PromQL ({error}): write it more plainly"
        ) from error
    if str(expression.prettify()) != text:
        raise QueryInvalid("the query reads differently when written back: write it more plainly")
    return expression


def selectors(expression: promql.Expr) -> list[promql.VectorSelector]:
    """Return every selector of an expression, in the order of the query."""
    found: list[promql.VectorSelector] = []

    def visit(node: promql.Expr) -> None:
        if isinstance(node, promql.VectorSelector):
            found.append(node)

    promql.walk(expression, visit)
    return found


def _functions(expression: promql.Expr) -> set[str]:
    found: set[str] = set()

    def visit(node: promql.Expr) -> None:
        if isinstance(node, promql.Call):
            found.add(node.func.name)

    promql.walk(expression, visit)
    return found
