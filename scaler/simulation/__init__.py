"""A vLLM fleet in simulated time, what scales it, and the traffic that drives it."""
