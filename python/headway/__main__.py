"""``python -m headway``: the ``headway`` command."""

from headway.cli import main

if __name__ == "__main__":
    main()
