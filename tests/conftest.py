"""What all tests share."""

import signal


def pytest_configure(config):
    # A run in the background of a script inherits an ignored Ctrl-C, and its children with it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
