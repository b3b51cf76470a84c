"""The page in a real browser, of a real program, by the command that serves it."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from subprocess import PIPE
from typing import TYPE_CHECKING, Any

import pytest
from helpers.owners import Owner

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
webdriver: Any = pytest.importorskip("selenium.webdriver")
Keys = webdriver.Keys

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
CHROMEDRIVER = shutil.which("chromedriver")
pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.skipif(
        not CHROMIUM or not CHROMEDRIVER, reason="needs chromium and chromedriver"
    ),
    pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"),
]
LIMIT = 20.0
HOSTILE = "<img src=x onerror=document.title='seen'>"

BUSY = """
import asyncio, time
import actorlib
from helpers.owners import listen, tell

@actorlib.remote(num_gpus=0.5)
class Model:
    def predict(self):
        print("<b>it</b> begins", flush=True)
        time.sleep(1000)

async def main():
    async with actorlib.init(num_cpus=4, num_gpus=2, grace=0):
        busy = Model.options(name="busy").remote()
        hostile = Model.options(name=HOSTILE).remote()
        await asyncio.gather(busy, hostile)
        late = Model.options(name="late", num_gpus=2).remote()
        replicas = await actorlib.Replicas(Model.options(num_gpus=0), 2)
        calls = [busy.predict.remote() for _ in range(3)]
        await asyncio.sleep(0)
        tell("ready")
        await asyncio.to_thread(listen)

asyncio.run(main())
"""


class Page:
    """The page, in a browser that shows it."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def until(self, condition: str) -> Any:
        """Waits until an expression of JavaScript is true: the page tells of changes.

        Gives what it is then.
        """
        return self.driver.execute_async_script(f"""
            const done = arguments[0];
            const look = () => {{
                try {{ return {condition}; }} catch {{ return null; }}
            }};
            const found = look();
            if (found) return done(found);
            const observer = new MutationObserver(() => {{
                const found = look();
                if (found) {{ observer.disconnect(); done(found); }}
            }});
            observer.observe(document, {{
                subtree: true, childList: true, attributes: true, characterData: true,
            }});
        """)

    def press(self, *keys: str) -> None:
        """Types, wherever the focus is."""
        self.driver.switch_to.active_element.send_keys(*keys)


@pytest.fixture(scope="module")
def browser() -> Iterator[Future[Any]]:
    """A browser that starts while the program does."""
    with ThreadPoolExecutor(1) as starting:
        coming = starting.submit(start_browser)
        try:
            yield coming
        finally:
            coming.result().quit()


def start_browser() -> Any:
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for word in ("headless=new", "disable-gpu", "window-size=1300,900"):
        options.add_argument(f"--{word}")
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # which root cannot have
    service = webdriver.ChromeService(CHROMEDRIVER)
    return webdriver.Chrome(options=options, service=service)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program = BUSY.replace("HOSTILE", repr(HOSTILE))
    with Owner(program, folder=tmp_path_factory.mktemp("busy")) as owner:
        assert owner.told() == "ready"
        words = [sys.executable, "-m", "actorlib", "top", "--web"]
        serving = subprocess.Popen(
            [*words, "--pid", str(owner.pid)], stdout=PIPE, stderr=PIPE, text=True
        )
        try:
            assert serving.stdout is not None
            assert select.select([serving.stdout], [], [], LIMIT)[0]
            yield serving.stdout.readline().strip()
            serving.send_signal(signal.SIGINT)
            assert serving.communicate(timeout=LIMIT) == ("", "")
            assert serving.returncode == 130
            owner.go_on()
            assert owner.end() == 0
        finally:
            serving.kill()
            serving.communicate()


@pytest.fixture(scope="module")
def page(browser: Future[Any], address: str) -> Page:
    driver = browser.result(LIMIT)
    driver.set_script_timeout(LIMIT)
    driver.get(address)
    return Page(driver)


def test_page_when_opened_then_rows_and_devices_and_the_line_appear(page: Page) -> None:
    assert page.until("document.querySelectorAll('#rows tr').length === 5") is True
    text = page.until("document.querySelector('#line li').innerText")
    assert "late" in text
    assert "requests GPU=2" in text
    assert page.until("document.querySelectorAll('.device').length") == 2
    held = page.until("document.querySelector('.bar').getAttribute('aria-label')")
    assert held.startswith("GPU 0: Model 'busy': 0.5; Model '<img")


def test_name_when_it_is_markup_then_it_is_shown_as_text(page: Page) -> None:
    names = page.until("document.querySelector('#rows').innerText")

    assert HOSTILE in names
    assert page.driver.execute_script("return document.images.length") == 0
    assert page.driver.title.startswith("actorlib")


def test_page_when_the_window_is_narrow_then_replicas_fit(page: Page) -> None:
    page.driver.set_window_size(500, 900)
    page.until("innerWidth <= 500")
    # Rows that are not visible have no layout.
    text = page.driver.execute_async_script("""
        const table = document.querySelector('#rows');
        const look = () => {
            table.scrollIntoView({ behavior: 'instant' });
            if (table.innerText.includes('[1]')) arguments[0](table.innerText);
            else requestAnimationFrame(look);
        };
        look();
    """)
    assert "Model[0]" in text
    assert "Model[1]" in text
    overflowing = page.driver.execute_script("""
        const replicas = [...document.querySelectorAll('#rows tr')]
            .filter((row) => row.innerText.includes('['));
        const shown = [document.documentElement, document.querySelector('.scroll'),
            ...document.querySelectorAll('#heads th'),
            ...replicas.flatMap((row) => [...row.cells])];
        return shown.filter((node) => node.scrollWidth > node.clientWidth)
            .map((node) => node.innerText);
    """)
    page.driver.set_window_size(1300, 900)
    assert overflowing == []


def test_page_when_used_by_keys_alone_then_a_stack_opens_and_a_kill_is_seen(
    page: Page,
) -> None:
    page.until("document.querySelectorAll('#rows tr').length === 5")

    page.driver.execute_script("document.body.focus()")
    page.press("/")
    page.press("busy", Keys.ARROW_DOWN)
    page.until("document.querySelectorAll('#rows tr').length === 1")
    page.press(Keys.ENTER)
    assert page.until("document.querySelector('#panel-title').textContent") == (
        "Model 'busy'"
    )
    page.driver.execute_script("document.querySelector('#tab-overview').focus()")
    page.press(Keys.ARROW_RIGHT)
    stack = page.until("document.querySelector('.frame.users') && body.innerText")
    assert "predict" in stack
    page.press(Keys.ARROW_RIGHT)
    calls = page.until(
        "document.querySelectorAll('.call').length === 3 && body.innerText"
    )
    assert "running" in calls
    page.press(Keys.ARROW_RIGHT)
    assert page.until("document.querySelector('.logged .what').textContent") == (
        "<b>it</b> begins"
    )
    page.press(Keys.ARROW_RIGHT)
    assert "busy" in page.until("document.querySelector('pre.text').textContent")

    page.press(Keys.TAB, Keys.ENTER)
    page.until("document.querySelector('#dialog').open")
    page.press(Keys.TAB, Keys.ENTER)
    page.until("document.querySelector('#rows tr').innerText.includes('dead')")
    page.press(Keys.ESCAPE)
    page.until("document.querySelector('#panel').hidden")
    assert page.driver.get_log("browser") == []
