"""Helper processes that end with the program that started them."""

from __future__ import annotations

import os
import threading
import time

_EVERY = 1.0  # seconds


def exit_with_parent() -> None:
    """End this process soon after its parent has gone, even while native code is at work in another thread."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_EVERY)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
