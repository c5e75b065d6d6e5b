"""`python -m theatre.cli`: the command line, where the program `echelon` is not at hand."""

from theatre.cli import main

if __name__ == "__main__":
    main()
