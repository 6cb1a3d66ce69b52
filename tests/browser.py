"""A browser without a screen, spoken to over a pair of pipes (Chrome's DevTools protocol), for tests of the page."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
KEYS = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowRight": 39, "Escape": 27}


def found() -> str | None:
    """The program of a browser; None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """A running browser, whose pages know nothing of each other. Calls raise AssertionError for what it refuses."""

    def __init__(self, program: str, folder: Path) -> None:
        there, self._out = os.pipe()
        self._in, back = os.pipe()

        def as_three_and_four() -> None:  # the numbers at which it looks for the pipes
            high = [os.dup(there), os.dup(back)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        words = ["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run"]
        words += ["--disable-dev-shm-usage", "--disable-extensions", f"--user-data-dir={folder}"]
        words += ["--window-size=1400,1000"]
        self._process = subprocess.Popen(
            [program, *words, "about:blank"],
            pass_fds=(3, 4),
            preexec_fn=as_three_and_four,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(there)
        os.close(back)
        self._held, self._number = b"", 0
        self.events: list[dict[str, Any]] = []

    def close(self) -> None:
        with contextlib.suppress(AssertionError, OSError):
            self.call("Browser.close")
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._out)
        os.close(self._in)

    @contextlib.contextmanager
    def page(self, url: str) -> Iterator[Page]:
        """A page of its own, as of somebody who has never been here, until it is left."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        self.events.clear()
        try:
            target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
            session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            page = Page(self, session, context)
            page.open(url)
            yield page
        finally:
            self.call("Target.disposeBrowserContext", browserContextId=context)

    def call(self, method: str, session: str = "", **params: Any) -> dict[str, Any]:
        """The answer to a command of the protocol."""
        self._number += 1
        said: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if session:
            said["sessionId"] = session
        os.write(self._out, json.dumps(said).encode() + b"\0")
        while True:
            got = self._next(30)
            assert got is not None, f"{method}: no answer"
            if got.get("id") == self._number:
                assert "error" not in got, (method, got["error"])
                result: dict[str, Any] = got["result"]
                return result
            self.events.append(got)

    def _next(self, seconds: float) -> dict[str, Any] | None:
        until = time.monotonic() + seconds
        while b"\0" not in self._held:
            ready, _, _ = select.select([self._in], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                return None
            data = os.read(self._in, 1 << 20)
            assert data, "the browser has ended"
            self._held += data
        message, _, self._held = self._held.partition(b"\0")
        got: dict[str, Any] = json.loads(message)
        return got


class Page:
    """A page of a browser."""

    def __init__(self, browser: Browser, session: str, context: str) -> None:
        self._browser, self._session, self._context = browser, session, context
        for domain in ("Page", "Runtime", "Log", "Network", "DOM", "Accessibility"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to a command about this page."""
        return self._browser.call(method, self._session, **params)

    # --- what people do

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, script: str) -> Any:
        """The value of an expression on the page."""
        asked = {"expression": script, "returnByValue": True, "awaitPromise": True, "userGesture": True}
        got = self.call("Runtime.evaluate", **asked)
        assert "exceptionDetails" not in got, got["exceptionDetails"]
        return got["result"].get("value")

    def until(self, script: str, seconds: float = 30) -> Any:
        """Wait until an expression is true: its value."""
        ends = time.monotonic() + seconds
        while not (value := self.run(script)):
            assert time.monotonic() < ends, f"never: {script}"
            time.sleep(0.02)
        return value

    def press(self, key: str, *, shift: bool = False) -> None:
        text = {"Enter": "\r", "Tab": "\t"}.get(key, "")
        how = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key], "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **how)
        self.call("Input.dispatchKeyEvent", type="keyUp", **how)

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def place(self, selector: str) -> tuple[float, float]:
        """The middle of an element, in the window."""
        named = json.dumps(selector)
        box = self.run(
            f"(() => {{ const e = document.querySelector({named}); e.scrollIntoView({{block: 'center', behavior:"
            " 'instant'}); const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        return float(box[0]), float(box[1])

    def move(self, selector: str) -> None:
        x, y = self.place(selector)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector: str) -> None:
        x, y = self.place(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def drop(self, selector: str, files: Sequence[Path]) -> None:
        """Drag files over an element and let them go."""
        x, y = self.place(selector)
        data = {"items": [], "files": [str(file) for file in files], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            self.call("Input.dispatchDragEvent", type=kind, x=x, y=y, data=data)

    def dark(self, on: bool) -> None:
        value = "dark" if on else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": value}])

    def size(self, width: int, height: int) -> None:
        how = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **how)

    def picture(self, path: Path) -> None:
        """What the window shows, as PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def downloads(self, folder: Path) -> None:
        """Where downloads go."""
        how = {"behavior": "allow", "downloadPath": str(folder), "browserContextId": self._context}
        self._browser.call("Browser.setDownloadBehavior", **how)

    def allow(self, *permissions: str) -> None:
        """What the page may do without asking."""
        how = {"permissions": permissions, "browserContextId": self._context}
        self._browser.call("Browser.grantPermissions", **how)

    # --- what it noticed

    def requested(self) -> Iterator[str]:
        """The addresses that the page has asked for."""
        self.run("1")
        for one in self._browser.events:
            if one.get("method") == "Network.requestWillBeSent":
                yield one["params"]["request"]["url"]

    def complaints(self) -> list[str]:
        """Errors that the page has made, and what the browser has refused it."""
        self.run("1")
        found = []
        for one in self._browser.events:
            if one.get("method") == "Runtime.exceptionThrown":
                found.append(str(one["params"]["exceptionDetails"].get("exception", one["params"])))
            if one.get("method") == "Log.entryAdded" and one["params"]["entry"]["level"] == "error":
                found.append(str(one["params"]["entry"]))
        return found
