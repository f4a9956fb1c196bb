"""`python -m artifactctl` and the console script."""

from artifactctl.cli import main

if __name__ == "__main__":
    main()
