"""What can keep an OpenAI-compatible endpoint from being driven at all."""


class EndpointError(Exception):
    """The root: no load can be sent there. Messages hold no key."""


class EndpointUnreachable(EndpointError):
    """Nobody answers, or not in time."""


class EndpointDenied(EndpointError):
    """The API key is missing, unreadable or not accepted."""


class EndpointRefused(EndpointError):
    """Somebody answers, but not as a server of this model would."""
