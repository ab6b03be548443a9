"""What can go wrong between us and a Kubernetes API server."""

from __future__ import annotations

from scaler.core.units import Seconds


class ClusterError(Exception):
    """The API server did not do what it was asked; the message names the fault and the cure."""


class AccessInvalid(ClusterError):
    """There is no way to the API server: no service account, no or a faulty kubeconfig."""


class ClusterUnreachable(ClusterError):
    """Nobody answered, the connection was cut, or the server failed (5xx)."""


class ClusterBusy(ClusterError):
    """The server asked for patience (429), for `patience` seconds."""

    def __init__(self, message: str, patience: Seconds) -> None:
        """Keep the patience."""
        super().__init__(message)
        self.patience = patience


class TokenRefused(ClusterError):
    """The server does not know us (401), also with the credentials read anew."""


class RightMissing(ClusterError):
    """The server knows us, and we may not (403)."""


class ClusterMissing(ClusterError):
    """There is no such object or kind (404)."""


class ClusterConflict(ClusterError):
    """Somebody else wrote in the meantime, or the name is taken (409)."""


class ViewExpired(ClusterError):
    """What we saw last is too long ago to go on from (410): list anew."""


class ClusterAnswerInvalid(ClusterError):
    """The answer is not what the API promises, as a proxy's login page."""
