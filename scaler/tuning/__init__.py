"""Puts other thresholds to a workload's own history: the past decided anew."""
