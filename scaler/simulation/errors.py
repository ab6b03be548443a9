"""What can be wrong with a simulation's inputs."""


class SimulationError(Exception):
    """The root: an input of the simulation that cannot be simulated."""


class ShapeInvalid(SimulationError):
    """An engine or fleet whose numbers contradict each other."""


class TraceInvalid(SimulationError):
    """A trace that cannot be read; the message names the line and what was expected there."""


class ProfileUnknown(SimulationError):
    """A profile or trace name that does not exist; the message lists those that do."""
