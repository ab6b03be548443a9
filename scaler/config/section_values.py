"""The kinds of values that sections of the configuration hold, and what is wrong with others."""

from __future__ import annotations

import re
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator

from scaler.config.faults import Unreadable
from scaler.config.quantities import duration
from scaler.core.units import Seconds

_ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]*|\*):([0-9]{1,5})")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_PORT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?")
_PAGE_PATH = re.compile(r"/[!-~]{0,4095}")
_HOST_NAME = re.compile(r"[A-Za-z0-9]([-.A-Za-z0-9]{0,251}[A-Za-z0-9])?")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[!-~]+")
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _seconds(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return value
    try:
        seconds = duration(f"{value:.15g}" if isinstance(value, int | float) else value.strip())
    except Unreadable as error:
        raise ValueError(str(error)) from error
    if not 0 < seconds <= 3600:  # noqa: PLR2004 - said in the message
        raise ValueError("is not above zero and at most an hour (write 5s)")
    return seconds


def _text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _address(text: str) -> str:
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match[1]) > 65535:  # noqa: PLR2004 - the last port
        raise ValueError("is not host:port (write 0.0.0.0:8080)")
    return text


def _label(text: str) -> str:
    if not _LABEL.fullmatch(text):
        raise ValueError("is not a label's name")
    return text


def listed(value: object) -> object:
    """Take `a,b`, as flags and the environment write lists."""
    return [item.strip() for item in value.split(",")] if isinstance(value, str) else value


def _namespace(text: str) -> str:
    if not _NAMESPACE.fullmatch(text):
        raise ValueError("is not the name of a namespace")
    return text


def _port(value: object) -> int | str:
    number = int(value) if isinstance(value, str) and value.isdecimal() else value
    if isinstance(number, int) and not isinstance(number, bool) and 0 < number <= 65535:  # noqa: PLR2004
        return number
    if isinstance(value, str) and _PORT_NAME.fullmatch(value) and not value.isdecimal():
        return value
    raise ValueError("is neither a port nor a container port's name (write 8000 or http)")


def _page_path(text: str) -> str:
    if not _PAGE_PATH.fullmatch(text):
        raise ValueError("is not a path (write /metrics)")
    return text


def _host_name(text: str) -> str:
    if not _HOST_NAME.fullmatch(text):
        raise ValueError("is not a host's name (write engines.llm.svc)")
    return text


def named(value: object) -> object:
    """Take a name alone for one that may ask for every namespace."""
    return {"name": value} if isinstance(value, str) else value


def _certificate_name(text: str) -> str:
    if _URI.fullmatch(text) or (_HOST_NAME.fullmatch(text) and not text[-1].isdigit()):
        return text
    raise ValueError(
        "is neither a whole DNS name nor a URI "
        "(write keda-operator.keda.svc or spiffe://cluster.local/ns/keda/sa/keda-operator)"
    )


Span: TypeAlias = Annotated[Seconds, BeforeValidator(_seconds)]
Text: TypeAlias = Annotated[str, BeforeValidator(_text), Field(max_length=4096)]
Address: TypeAlias = Annotated[str, AfterValidator(_address)]
Port: TypeAlias = Annotated[int | str, PlainValidator(_port)]
PagePath: TypeAlias = Annotated[str, AfterValidator(_page_path)]
HostName: TypeAlias = Annotated[str, AfterValidator(_host_name)]
Namespace: TypeAlias = Annotated[str, AfterValidator(_namespace)]
Label: TypeAlias = Annotated[str, AfterValidator(_label)]
CertificateName: TypeAlias = Annotated[
    str, Field(max_length=2048), AfterValidator(_certificate_name)
]
