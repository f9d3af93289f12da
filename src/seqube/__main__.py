"""`python -m seqube` is `seqube`."""

from seqube.cli import app

app()
