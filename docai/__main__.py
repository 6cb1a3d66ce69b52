"""`python -m docai`: the command line."""

from docai.cli.app import main

if __name__ == "__main__":
    main()
