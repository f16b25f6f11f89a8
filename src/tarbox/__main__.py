"""`python -m tarbox`."""

from tarbox.cli.main import run

if __name__ == "__main__":
    run()
