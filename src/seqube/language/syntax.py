from seqube.errors import Problem, Span
def explain(error, text):
    return Problem(str(error), Span(error.line, error.column))
