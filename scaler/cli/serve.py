"""`scaler serve`: answers KEDA until it is told to end."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from pathlib import Path

import click

from scaler.app import REFUSALS, Application, serve
from scaler.config.server import load_config


@click.command()
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="SCALER_CONFIG",
    help="The server's configuration, YAML; re-read when it changes and on SIGHUP.",
)
@click.option(
    "--source",
    type=click.Choice(["scrape", "prometheus"]),
    help="Where the engines' signals come from, when there is one source.",
)
@click.option("--targets", help="With scrape: the engines, in Prometheus' file_sd format.")
@click.option("--prometheus-url", help="With prometheus: its address.")
@click.option("--prometheus-bearer-token-file", help="With prometheus: re-read as it rotates.")
@click.option("--prometheus-ca-file", help="With prometheus: the CA that signed its certificate.")
@click.option(
    "--cluster",
    metavar="none|kubernetes|FILE",
    help="Who knows the replica counts: the cluster, a YAML list, or nobody but the source.",
)
@click.option("--namespaces", metavar="A,B", help="With kubernetes: look only at these.")
@click.option("--kubeconfig", help="With kubernetes, outside of a cluster: how to get in.")
@click.option("--kubeconfig-context", help="Which of its contexts.")
@click.option("--history-file", help="Keep changes of answers over a restart here (SQLite).")
@click.option("--grpc-listen", metavar="HOST:PORT", help="Where KEDA asks.")
@click.option("--grpc-tls-certificate-file", help="PEM; re-read as it rotates.")
@click.option("--grpc-tls-key-file", help="PEM; re-read as it rotates.")
@click.option("--grpc-tls-client-ca-file", help="Serve only clients that this CA signed.")
@click.option(
    "--grpc-tls-allowed-names", metavar="A,B", help="Of these, only with such a name (DNS or URI)."
)
@click.option("--http-listen", metavar="HOST:PORT", help="The page, metrics and health.")
@click.option("--http-token-file", help="Show decisions to its bearers only; re-read at changes.")
@click.option(
    "--http-behind-proxy", metavar="true|false", help="Show decisions to all that a proxy lets in."
)
@click.option("--log-format", type=click.Choice(["json", "text"]))
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]))
def command(config: Path | None, **flags: str | None) -> None:
    """Answer KEDA.

    Every option may also stand in the file or in the environment (SCALER_GRPC_LISTEN and so on);
    an option wins over the environment, which wins over the file.
    """
    load = partial(load_config, config, dict(os.environ), flags)
    try:
        asyncio.run(serve(Application(load, config_file=config)))
    except REFUSALS as error:
        raise click.ClickException(str(error)) from error
