"""What is raised where TASO ends the process."""


class TasoError(ValueError):
    """Say what TASO would have aborted on: the operator, what was expected, what came."""
