"""Why a history cannot be tuned on."""


class TuningError(Exception):
    """The root: the message says what is wrong and what to do."""


class NotEnoughKnown(TuningError):
    """The history does not show what a model of it needs."""
