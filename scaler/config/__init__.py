"""Turns strings (metadata, environment, file) into core objects, or one error with every fault."""
