"""Which clients may ask, by the names in their certificates, and for which namespaces.

A CA signs for more than KEDA, and a certificate that lies in a team's namespace can be used by that
team without KEDA: it may claim any namespace then. So names can be listed, and bound to namespaces.
"""

from __future__ import annotations

import base64
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import grpc
import structlog

from scaler.edge.errors import Refusal
from scaler.edge.measures import Measures
from scaler.wire.externalscaler_pb2 import DESCRIPTOR, GetMetricsRequest, ScaledObjectRef

_METHODS = {
    f"/{service.full_name}/{method.name}": method.name
    for service in DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
_SHOWN, _MOST_LOGGED = 3, 100
_LONGEST_NAME = 253

_Context: TypeAlias = "grpc.aio.ServicerContext[object, object]"
_Handler: TypeAlias = "grpc.RpcMethodHandler[object, object]"
_Admit: TypeAlias = "Callable[[object, _Context], Awaitable[None]]"

_log = structlog.get_logger(__name__)


class _Behaving(Protocol):
    """What gRPC's handlers have: one of these four, and the codecs of their messages."""

    request_streaming: bool
    response_streaming: bool
    request_deserializer: Callable[[bytes], object] | None
    response_serializer: Callable[[object], bytes] | None
    unary_unary: Callable[..., Awaitable[object]] | None
    unary_stream: Callable[..., AsyncIterator[object]] | None
    stream_unary: Callable[..., Awaitable[object]] | None
    stream_stream: Callable[..., AsyncIterator[object]] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedName:
    """A DNS name or URI in a client's certificate; without `namespaces` it may ask for all."""

    name: str
    namespaces: frozenset[str] = frozenset()


class Callers(grpc.aio.ServerInterceptor):
    """Refuses each call of a client whose certificate has no allowed name.

    DNS names are compared without regard to case and never as patterns, URIs letter by letter; the
    common name counts for nothing.
    """

    def __init__(self, allowed: Sequence[AllowedName], measures: Measures) -> None:
        """Let these in."""
        self._allowed = {_folded(each.name): each for each in allowed}
        self._measures = measures
        self._guarded: dict[str, _Handler] = {}
        self._logged: set[str] = set()

    async def intercept_service(  # type: ignore[override] # which messages, is of no matter here
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[_Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> _Handler | None:
        """Put the question who asks before the handler."""
        method = handler_call_details.method
        known = self._guarded.get(method)
        if known is not None:
            return known
        handler = await continuation(handler_call_details)
        if handler is None:
            return None  # there is no such method
        return self._guarded.setdefault(method, _guarded(handler, self._guard(method)))

    def _guard(self, method: str) -> _Admit:
        async def admit(request: object, context: _Context) -> None:
            refusal = self._refusal(_names(context.auth_context()), _namespace(request))
            if refusal is None:
                return
            if method in _METHODS:
                code = refusal.code.name
                self._measures.calls.labels(_METHODS[method], code).observe(0.0)
            await context.abort(refusal.code, str(refusal))

        return admit

    def _refusal(self, names: Sequence[str], namespace: str | None) -> Refusal | None:
        known = [found for name in names if (found := self._allowed.get(_folded(name)))]
        if any(not k.namespaces or namespace in {None, *k.namespaces} for k in known):
            return None
        if known:
            told = (
                f"the certificate {_listed([k.name for k in known])} may not ask for the namespace "
                f'"{(namespace or "")[:63]}": let it do so with namespaces in grpc.tls.allowedNames'
            )
        else:
            told = (
                f"a client's certificate with the names {_listed(names)} may not ask: whoever runs "
                "the scaler can add a DNS name or a URI of it to grpc.tls.allowedNames"
            )
        self._log_once(told)
        return Refusal(grpc.StatusCode.PERMISSION_DENIED, told)

    def _log_once(self, told: str) -> None:
        if told not in self._logged and len(self._logged) < _MOST_LOGGED:
            self._logged.add(told)
            _log.warning("caller-refused", error=told)


def _folded(name: str) -> str:
    return name if "://" in name else name.lower()


def _names(context: Mapping[str, Iterable[bytes]]) -> list[str]:
    """Return the names that may be compared; each stands under its kind, so none passes for both.

    What is a URI has a scheme, and what calls itself a DNS name may not look like one.
    """
    pem = b"".join(context.get("x509_pem_cert", ()))
    body = b"".join(line for line in pem.splitlines() if not line.startswith(b"-----"))
    der = base64.b64decode(body)
    dns = [n for n in context.get("peer_dns", ()) if b"://" not in n and _whole(0x82, n, der)]
    uris = [n for n in context.get("peer_uri", ()) if b"://" in n and _whole(0x86, n, der)]
    return [name.decode("utf-8", "replace") for name in (*dns, *uris)]


def _whole(tag: int, name: bytes, der: bytes) -> bool:
    """Say whether a name stands in the certificate with this length: gRPC cuts it at a NUL."""
    size = len(name)
    length = bytes([size]) if size < 0x80 else size.to_bytes((size.bit_length() + 7) // 8, "big")  # noqa: PLR2004 - DER
    prefix = b"" if size < 0x80 else bytes([0x80 | len(length)])  # noqa: PLR2004 - DER
    return bytes([tag]) + prefix + length + name in der


def _namespace(request: object) -> str | None:
    """Return the namespace that a request is for; None where it is for none."""
    if isinstance(request, GetMetricsRequest):
        return request.scaledObjectRef.namespace
    return request.namespace if isinstance(request, ScaledObjectRef) else None


def _listed(names: Sequence[str]) -> str:
    shown = [ascii(name[:_LONGEST_NAME])[1:-1] for name in names[:_SHOWN]]
    more = [f"and {len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
    return ", ".join([*shown, *more]) or "(none)"


def _guarded(handler: _Handler, admit: _Admit) -> _Handler:
    """Return a handler that asks `admit` first. gRPC has one kind of handler for each form."""
    found: _Behaving = handler  # type: ignore[assignment] # the stubs keep what is inside to themselves
    codecs = (found.request_deserializer, found.response_serializer)
    if found.unary_unary is not None:
        once = _awaited(found.unary_unary, admit)
        return grpc.unary_unary_rpc_method_handler(once, *codecs)
    if found.unary_stream is not None:
        many = _streamed(found.unary_stream, admit)
        return grpc.unary_stream_rpc_method_handler(many, *codecs)
    if found.stream_stream is not None:
        many = _streamed(found.stream_stream, admit)
        return grpc.stream_stream_rpc_method_handler(many, *codecs)
    raise TypeError("a handler of a form that nobody here serves")


def _awaited(behave: Callable[..., Awaitable[object]], admit: _Admit) -> Callable[..., object]:
    async def behave_if_admitted(request: object, context: _Context) -> object:
        await admit(request, context)
        return await behave(request, context)

    return behave_if_admitted


def _streamed(behave: Callable[..., object], admit: _Admit) -> Callable[..., object]:
    if not inspect.isasyncgenfunction(behave):
        # It writes to the context itself, as the health service's watch does.
        return _awaited(behave, admit)  # type: ignore[arg-type]

    async def behave_if_admitted(request: object, context: _Context) -> AsyncIterator[object]:
        await admit(request, context)
        async for message in behave(request, context):
            yield message

    return behave_if_admitted
