"""Exit codes that more than one command uses: 0 is fine, 1 the user's mistake or bad data, 2 wrong usage."""

WITH_REJECTED = 3
"""The command is done, with lines rejected."""
