"""`scaler health`: what a container's health check and a person at a shell ask."""

from __future__ import annotations

from pathlib import Path

import click

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("health")
@click.option(
    "--grpc", "address", metavar="HOST:PORT", default="127.0.0.1:50051", show_default=True
)
@click.option("--timeout", type=click.FloatRange(min=0.1), default=3.0, show_default=True)
@click.option("--ca-cert", type=_FILE, help="CA of the server's certificate: ask over TLS.")
@click.option("--client-cert", type=_FILE, help="Certificate to show (mutual TLS).")
@click.option("--client-key", type=_FILE, help="Key of the certificate to show.")
@click.option("--server-name", help="Name in the server's certificate, if the host is another.")
def command(
    address: str,
    timeout: float,
    ca_cert: Path | None,
    client_cert: Path | None,
    client_key: Path | None,
    server_name: str | None,
) -> None:
    """Exit with 0 if the scaler at --grpc answers KEDA, with 1 if it does not."""
    if (client_cert is None) != (client_key is None):
        raise click.UsageError("--client-cert and --client-key belong together")
    if ca_cert is None and (client_cert is not None or server_name is not None):
        raise click.UsageError("--client-cert and --server-name need --ca-cert")
    files = [path.read_bytes() if path else None for path in (ca_cert, client_key, client_cert)]
    status = _ask(address, timeout, files, server_name)
    if status != "SERVING":
        raise click.ClickException(f"the scaler at {address} does not answer KEDA: {status}")
    click.echo("SERVING")


def _ask(address: str, timeout: float, pem: list[bytes | None], server_name: str | None) -> str:
    """Return the health status, or what kept the scaler from telling it."""
    import grpc  # noqa: PLC0415 - takes a while: only where needed
    from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]  # noqa: PLC0415

    options = [("grpc.ssl_target_name_override", server_name)] if server_name else []
    if pem[0] is not None:
        credentials = grpc.ssl_channel_credentials(*pem)
        channel = grpc.secure_channel(address, credentials, options=options)
    else:
        channel = grpc.insecure_channel(address)
    with channel:
        try:
            request = health_pb2.HealthCheckRequest()
            answer = health_pb2_grpc.HealthStub(channel).Check(request, timeout=timeout)
        except grpc.RpcError as error:
            call: object = error
            if not isinstance(call, grpc.Call):
                return "no answer"
            return f"{call.code().name} ({call.details()})"
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))
