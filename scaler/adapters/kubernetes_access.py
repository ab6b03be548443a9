"""The way to the API server: address, TLS and credentials, as the kubernetes client finds them.

Only its configuration is used. Its typed models and its watch are not: they cost a hundred times
the CPU of decoding just the fields that matter, and its watch has no read deadline.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scaler.adapters.kubernetes_errors import AccessInvalid
from scaler.adapters.kubernetes_settings import KubernetesSettings


@dataclass(frozen=True, slots=True)
class Access:
    """A way in. `tls` is True for a plain http address; `server_name` is TLS' own."""

    url: str
    tls: ssl.SSLContext | bool
    proxy: str | None
    server_name: str | None
    configuration: Any

    async def headers(self) -> dict[str, str]:
        """Return the headers that say who we are; the client re-reads a mounted token."""
        found: dict[str, str] = {}
        try:
            settings = await self.configuration.auth_settings()
        except Exception as error:
            raise AccessInvalid(
                f"the API server's credentials cannot be read ({type(error).__name__}): check the "
                "service account's token or the kubeconfig"
            ) from error
        for setting in settings.values():
            value = setting["value"]
            if setting["in"] == "header" and value:
                found[setting["key"]] = " ".join(value.split())
        return found


def find_access(settings: KubernetesSettings) -> None:
    """Look whether there is any way in, without trying it. Raises AccessInvalid.

    What is there and faulty may be mended while we run; where there is nothing, nobody meant us to
    find a cluster.
    """
    if settings.kubeconfig is not None:
        if not settings.kubeconfig.is_file():
            raise AccessInvalid(f"{settings.kubeconfig} is no kubeconfig: correct --kubeconfig")
    elif not (_in_cluster() or _default_kubeconfig()):
        raise AccessInvalid(
            "no cluster to be found: this is no pod with a service account, and there is no "
            "kubeconfig (name one with --kubeconfig, or set --cluster none)"
        )


def _in_cluster() -> bool:
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST"))


def _default_kubeconfig() -> bool:
    named = os.environ.get("KUBECONFIG", "")
    paths = [Path(name) for name in named.split(os.pathsep) if name]
    return any(path.is_file() for path in paths or [Path("~/.kube/config").expanduser()])


async def gain_access(settings: KubernetesSettings) -> Access:
    """Find the way in, anew at each call. Raises AccessInvalid."""
    try:
        return await _found(settings)
    except AccessInvalid:
        raise
    except Exception as error:  # the client raises what its parsers raise
        where = settings.kubeconfig or "the service account or the kubeconfig"
        raise AccessInvalid(
            f"no way to the API server: {where} cannot be used ({_told(error)}): "
            "check it, or name another with --kubeconfig"
        ) from error


async def _found(settings: KubernetesSettings) -> Access:
    config, configuration = await asyncio.to_thread(_client)
    in_cluster = settings.kubeconfig is None and _in_cluster()
    if in_cluster:
        loader = config.incluster_config.InClusterConfigLoader(
            token_filename=str(settings.service_account / "token"),
            cert_filename=str(settings.service_account / "ca.crt"),
        )
        loader.load_and_set(configuration)
    else:
        kubeconfig = settings.kubeconfig
        await config.load_kube_config(
            config_file=None if kubeconfig is None else str(kubeconfig),
            context=settings.context,
            client_configuration=configuration,
            persist_config=False,
        )
    if in_cluster and not await configuration.auth_settings():
        raise AccessInvalid("the kubernetes client gives no credentials: update the scaler")
    return Access(
        url=configuration.host.rstrip("/"),
        tls=await asyncio.to_thread(_tls, configuration),
        proxy=configuration.proxy,
        server_name=configuration.tls_server_name,
        configuration=configuration,
    )


def _client() -> tuple[Any, Any]:
    # A fifth of a second and 20 MiB: only for whoever has a cluster, and after the probes answer.
    from kubernetes.aio import config  # noqa: PLC0415
    from kubernetes.aio.client import Configuration  # noqa: PLC0415

    # Its constructor copies a process-wide default; ours is a fresh one.
    return config, type.__call__(Configuration)


def _tls(configuration: Any) -> ssl.SSLContext | bool:
    if not configuration.host.startswith("https:"):
        return True
    context = ssl.create_default_context(
        cafile=configuration.ssl_ca_cert, cadata=configuration.ca_cert_data
    )
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:  # as the kubeconfig asks
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.disable_strict_ssl_verification:
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _told(error: Exception) -> str:
    """Name an error without its text, which can hold a token or a whole file."""
    if isinstance(error, OSError) and error.strerror:
        place = f" {Path(str(error.filename)).name}" if error.filename else ""
        return f"{error.strerror}{place}"
    if type(error).__name__ == "ConfigException":
        return str(error).split("\n", 1)[0][:200]
    return type(error).__name__
