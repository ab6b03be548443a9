"""What can go wrong in the demo."""


class DemoError(Exception):
    """The root: the demo cannot run as asked."""


class SpeedInvalid(DemoError):
    """A speed at which simulated time makes no sense."""


class NoFreePort(DemoError):
    """This machine gives the emulated engines no port to listen on."""


class AnswerInvalid(DemoError):
    """The scaler answered something that KEDA takes for an error."""
