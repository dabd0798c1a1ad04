"""Lock files, which record what is public: their tests run as programs print them or, with --update, write them."""

import argparse
import sys


def command_line(description, path, text):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--update", action="store_true", help=f"write {path.name}")
    if parser.parse_args().update:
        path.write_text(text)
    else:
        sys.stdout.write(text)
