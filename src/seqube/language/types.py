"""placeholder"""
from typing import Literal as OneOf
Kind = OneOf["number", "string", "boolean", "time", "duration", "other"]
def check(query, schema, known_types=None): pass
