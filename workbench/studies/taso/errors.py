"""The exception in place of TASO's end of the process."""


class TasoError(ValueError):
    """Raised when TASO would end the process; the message has the operator, the norm and the value."""
