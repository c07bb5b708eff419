"""The command line, as `python -m statewright`."""

from statewright.cli.main import main

if __name__ == "__main__":
    main()
