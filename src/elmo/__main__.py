"""`python -m elmo` is the `elmo` command."""

from elmo.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
