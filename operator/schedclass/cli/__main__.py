"""`python -m schedclass.cli`."""

from schedclass.cli.main import run

if __name__ == "__main__":
    run()
