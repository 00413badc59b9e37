"""`python -m schedclass`."""

from schedclass.main import app

app()
