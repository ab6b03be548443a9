"""`python -m scaler` is the command `scaler`."""

from scaler.cli import main

main()
