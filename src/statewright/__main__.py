"""`python -m statewright`: the command line."""

from statewright.cli.main import main

if __name__ == "__main__":
    main()
