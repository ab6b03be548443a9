"""A KEDA external scaler that gives the number of vLLM replicas that demand needs."""

__version__ = "0.1.0"
