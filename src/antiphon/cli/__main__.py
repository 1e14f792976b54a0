"""``python -m antiphon.cli``: the same as the command `antiphon`."""

from antiphon.cli.root import main

if __name__ == "__main__":
    main(prog_name="antiphon")
