"""The page, in a real browser: the graph, its boxes, questions, what changes, and why."""

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.server.web.conftest import Web, web_of
from tests.waiting import PATIENCE

pytestmark = pytest.mark.browser
SCRIPT = """
create table customer (id int primary key, name text, region text);
create table sale (id int primary key, customer int, total int);
insert into customer values (1, 'Ada', 'EU'), (2, 'Ben', 'EU'), (3, 'Cyd', 'US');
insert into sale values (1, 1, 10), (2, 1, 20), (3, 2, 5);
create materialized view sums as
    select region, sum(total) as total from customer c join sale s on s.customer = c.id group by region;
create materialized view best as
    select name, max(total) as most from customer c join sale s on s.customer = c.id group by name;
create materialized view rich as select * from sums where total > 30;
create table edge (a int, b int, primary key (a, b));
insert into edge values (1, 2), (2, 3);
"""
PROGRAM = (
    ".decl reach(a: number, b: number)\n.output reach\n"
    "reach(x, y) :- edge(x, y).\nreach(x, z) :- reach(x, y), edge(y, z).\n"
)
ODD = "<img src=x onerror=alert(1)>"


class Page:
    """The page in a browser."""

    def __init__(self, web: Web, driver: Any) -> None:
        self.web = web
        self.driver = driver

    def js(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def until(self, script: str, *arguments: Any) -> Any:
        """What an expression gives, once that is something true."""
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.driver, PATIENCE, 0.02).until(
            lambda _: self.js(f"return {script}", *arguments)
        )

    def box(self, id_: str, event: str) -> None:
        self.js(
            "document.querySelector(`[data-id='${arguments[0]}']`)"
            ".dispatchEvent(new MouseEvent(arguments[1], {bubbles: true}))",
            id_,
            event,
        )

    def text(self, id_: str) -> str:
        found: str = self.js("return document.getElementById(arguments[0]).innerText", id_)
        return found

    def has(self, id_: str, text: str) -> None:
        """Wait until an element shows a text."""
        self.until("document.getElementById(arguments[0]).innerText.includes(arguments[1])", id_, text)

    def watch(self, name: str) -> None:
        self.js(
            "document.getElementById('view').value = arguments[0];"
            "document.getElementById('follow').requestSubmit()",
            name,
        )

    def run(self, text: str, language: str = "sql") -> None:
        self.js(
            "const by = (id) => document.getElementById(id); by('language').value = arguments[1];"
            "by('text').value = arguments[0]; by('question').requestSubmit()",
            text,
            language,
        )


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    browser, program = shutil.which("chromium"), shutil.which("chromedriver")
    assert browser is not None and program is not None, ".ci/clients installs the browser and its driver"
    options.binary_location = browser
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.add_argument("--window-size=1600,1000")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with web_of() as web:
        assert web.sql(SCRIPT)[0] == 200
        assert web.datalog(PROGRAM)[0] == 200
        driver = webdriver.Chrome(options, Service(program))
        try:
            driver.get(f"http://127.0.0.1:{web.port}/")
            one = Page(web, driver)
            one.until("document.querySelectorAll('#graph .box').length >= 9")
            yield one
            severe = [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
            assert [message for message in severe if "status of 400" not in message] == []
        finally:
            driver.quit()


def test_boxes_and_what_is_shared(page: Page) -> None:
    found = page.js(
        "return [...document.querySelectorAll('#graph .box')].map("
        "(box) => [box.classList[1], box.querySelector('.name').textContent])"
    )
    assert sorted(map(tuple, found)) == [
        ("index", "customer(id)"),
        ("index", "sale(customer)"),
        ("table", "customer"),
        ("table", "edge"),
        ("table", "sale"),
        ("view", "best"),
        ("view", "reach"),
        ("view", "rich"),
        ("view", "sums"),
    ]
    labels = page.js("return [...document.querySelectorAll('#graph .box')].map((box) => box.ariaLabel)")
    assert "table customer: 3 rows" in labels
    assert "shared index sale(customer): 3 rows, shared by best, sums" in labels


def test_boxes_do_not_overlap(page: Page) -> None:
    for unfolded in ([], ["v:reach", "v:sums"]):
        for one in unfolded:
            page.box(one, "dblclick")
        overlapping = page.js(
            """
            const boxes = [...document.querySelectorAll('#graph .box, #graph .operator')]
              .map((box) => [box, box.querySelector('.body').getBoundingClientRect()]);
            return boxes.flatMap(([a, one], place) => boxes.slice(place + 1)
              .filter(([b, other]) => !a.contains(b)
                && one.left < other.right - 0.5 && other.left < one.right - 0.5
                && one.top < other.bottom - 0.5 && other.top < one.bottom - 0.5)
              .map(([b]) => [a.dataset.id, b.dataset.id]));
            """
        )
        assert overlapping == []
    operators = page.js(
        "return [...document.querySelectorAll('[data-id=\"v:reach\"] .operator.loop .operator .name')]"
        ".map((name) => name.textContent)"
    )
    assert "Variable 0" in operators
    assert "Distinct" in operators
    page.js("document.getElementById('fold').click()")
    assert page.js("return document.querySelectorAll('#graph .operator').length") == 0


def test_details_of_a_view(page: Page) -> None:
    page.box("v:sums", "click")
    page.has("details", "O(change)")
    text = page.text("details")
    assert "a materialized view" in text
    assert "select region, sum(total) as total" in text
    links = page.js(
        "return [...document.querySelectorAll('#details .links button')].map((one) => one.innerText)"
    )
    assert {"customer", "sale", "rich"} <= set(links)
    page.box("v:reach", "click")
    page.has("details", "reach(x, z) :- reach(x, y), edge(y, z).")


def test_search_and_keys(page: Page) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    search = page.driver.find_element(By.ID, "search")
    page.driver.find_element(By.TAG_NAME, "body").send_keys("/")
    assert page.js("return document.activeElement.id") == "search"
    search.send_keys("bes", Keys.ENTER)
    assert page.js("return document.activeElement.dataset.id") == "v:best"
    page.has("details", "select name, max(total) as most")
    page.driver.switch_to.active_element.send_keys(Keys.ARROW_LEFT)
    assert page.js("return document.activeElement.dataset.id").startswith("a:")
    page.driver.switch_to.active_element.send_keys(Keys.ENTER)
    page.has("details", "SHARED BY 2")


def test_questions_and_their_errors(page: Page) -> None:
    page.run(f"select 1 as n, null as nothing, '{ODD}' as odd")
    page.has("answer", ODD)
    assert page.js("return document.querySelectorAll('#answer img').length") == 0
    page.run("select nosuch from sale")
    page.has("answer", 'column "nosuch" does not exist')
    page.has("answer", "^^^^^^")
    page.run("?- reach(1, x).", "datalog")
    page.has("answer", "2 rows")
    page.js("document.getElementById('name').value = 'all_sales'")
    page.run("select count(*) as n from sale")
    page.has("answer", "1 row")
    page.js("document.getElementById('keep').click()")
    page.has("answer", "CREATE MATERIALIZED VIEW")
    page.until("document.querySelector(`[data-id='v:all_sales']`)")


def test_a_view_is_watched_and_a_row_explained(page: Page) -> None:
    page.js(
        "document.getElementById('view').value = 'SUMS'; document.getElementById('follow').requestSubmit()"
    )
    page.has("rows", "35")
    assert page.web.sql("insert into sale values (4, 3, 7), (5, 1, 100)")[0] == 200
    page.has("rows", "135")
    page.has("watching", "2 rows, 3 changes seen")
    log = page.js("return [...document.querySelectorAll('#rows .log tbody tr')].map((row) => row.innerText)")
    assert sorted(line.split("\t")[1:] for line in log) == [
        ["+1", "EU", "135"],
        ["+1", "US", "7"],
        ["−1", "EU", "35"],
    ]
    page.js("document.querySelector('#rows td.ask button').click()")
    page.has("why", "over 4 rows, 3 shown")
    assert "sale(id = 5, customer = 1, total = 100)" in page.text("why")
    page.js(
        "document.getElementById('view').value = 'reach'; document.getElementById('follow').requestSubmit()"
    )
    page.has("watching", "reach: 3 rows")
    page.js(
        "[...document.querySelectorAll('#rows tbody tr')].find((row) => row.innerText.startsWith('1\\t3'))"
        ".querySelector('button').click()"
    )
    page.has("why", "reach(x, z) :- reach(x, y), edge(y, z).")
    assert "edge" in page.text("why")


def test_figures_move_and_a_name_of_any_letters_is_a_text(page: Page) -> None:
    name = 'a "b" ' + ODD
    quoted = name.replace('"', '""')
    page.web.sql(f'create table "{quoted}" (a int); insert into "{quoted}" values (1)')
    page.web.sql(f'create materialized view "{quoted}!" as select a from "{quoted}"')
    page.until(
        "[...document.querySelectorAll('#graph .box')].some((box) => box.dataset.id === arguments[0])",
        f"v:{name}!",
    )
    assert page.js("return document.querySelectorAll('img[src=x]').length") == 0
    page.run(f'select * from "{quoted}!"')
    page.has("answer", "why")
    page.js("document.querySelector('#answer td.ask button').click()")
    page.has("why", "row of a table")


def test_boxes_have_figures_and_what_they_are_is_above_them(page: Page) -> None:
    figures = (
        "[...document.querySelector(`[data-id='${arguments[0]}']`).querySelectorAll('.figure')]"
        ".map((one) => one.textContent)"
    )
    page.until(f"{figures}.length === 4 && {figures}[0] === '3'", "v:best")
    assert page.js(f"return {figures}", "v:best")[1].endswith("B")
    assert page.js(f"return {figures}", "t:sale")[0] == "5"
    assert page.js(f"return {figures}", "t:sale")[1].endswith("B")
    heads = "#graph g[aria-hidden] > .figure"
    titles = page.js(f"return [...document.querySelectorAll('{heads}')].map((one) => one.textContent)")
    assert {"rows", "bytes", "changes", "last step"} == set(titles)
    page.web.sql("create materialized view two as select id from sale order by id limit 2")
    page.until(f"document.querySelector(`[data-id='v:two']`) && {figures}[0] === '2'", "v:two")


def test_what_is_followed_comes_to_the_last_epoch(page: Page) -> None:
    page.watch("rich")
    page.has("watching", "rich: ")
    epoch = page.web.sql("insert into edge values (90, 91)")[1]["epoch"]
    page.until(
        "Number(document.getElementById('watching').innerText.match(/epoch ([0-9]+)$/)?.[1]) >= arguments[0]",
        epoch,
    )
    assert "0 changes seen" in page.text("watching")
    page.has("pace", "epoch")


def test_why_is_in_sight_beside_a_wide_row(page: Page) -> None:
    columns = ", ".join(f"'a text that is long' as column_{number}" for number in range(12))
    page.web.sql(f"create materialized view wide as select id, {columns} from sale where id = 1")
    page.until("document.querySelector(`[data-id='v:wide']`)")
    page.watch("wide")
    page.has("watching", "wide: 1 row")
    button, panel = page.js(
        "return [document.querySelector('#rows td.ask button'), document.getElementById('watch')]"
        ".map((one) => one.getBoundingClientRect().right)"
    )
    assert button <= panel


def test_an_overlay_is_drawn(page: Page) -> None:
    page.web.sql(
        "create table follows (who int, whom int); create table posts (id int, author int, likes int)"
    )
    page.web.sql("insert into follows values (1, 7), (1, 8), (2, 7); insert into posts values (1, 7, 3)")
    page.web.sql(
        "create ego view liked as sum(value) from (select id, author, likes from posts) last 2"
        " over follows out with (overlay = none, mode = push)"
    )
    page.until("document.querySelector(`[data-id='v:liked']`)")
    page.box("v:liked", "click")
    page.has("details", "sharing index")
    texts = page.js("return [...document.querySelectorAll('.overlay text')].map((one) => one.textContent)")
    assert texts == ["writers", "2 pushed", "0 pulled", "3", "level 1", "2 pushed", "0 pulled"]


def test_datalog_is_neither_explained_nor_kept(page: Page) -> None:
    disabled = "return ['explain', 'keep'].map((id) => document.getElementById(id).disabled)"
    choose = (
        "const one = document.getElementById('language'); one.value = arguments[0];"
        "one.dispatchEvent(new Event('change'))"
    )
    page.js(choose, "datalog")
    assert page.js(disabled) == [True, True]
    page.js(choose, "sql")
    assert page.js(disabled) == [False, False]


def test_a_small_window_needs_no_scrolling_to_the_side(page: Page) -> None:
    for width in (390, 800, 1100):
        size = {"width": width, "height": 700, "deviceScaleFactor": 1, "mobile": False}
        page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        assert page.js("return document.documentElement.scrollWidth") <= width
        right = page.js("return document.getElementById('theme').getBoundingClientRect().right")
        assert right <= width
    page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_theme_is_the_one_that_the_system_has(page: Page) -> None:
    for name in ("light", "dark"):
        wish = {"features": [{"name": "prefers-color-scheme", "value": name}]}
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", wish)
        page.until("document.documentElement.dataset.theme === arguments[0]", name)


def test_nothing_comes_from_outside(page: Page) -> None:
    names = page.js("return performance.getEntriesByType('resource').map((one) => new URL(one.name).origin)")
    assert set(names) == {f"http://127.0.0.1:{page.web.port}"}


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_texts_stand_out_from_what_is_behind_them(page: Page, theme: str) -> None:
    """By the ratio that WCAG asks of small text."""
    colours = page.js(
        """
        document.documentElement.dataset.theme = arguments[0];
        const style = getComputedStyle(document.documentElement);
        const names = 'text muted accent good bad warn panel back raised'.split(' ').map((one) => '--' + one);
        return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(name).trim()]));
        """,
        theme,
    )

    def light(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        red, green, blue = (
            one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    for front in ("--text", "--muted", "--accent", "--good", "--bad", "--warn"):
        for back in ("--panel", "--back", "--raised"):
            bright, dark = sorted((light(colours[front]), light(colours[back])), reverse=True)
            assert (bright + 0.05) / (dark + 0.05) >= 4.5, (front, back, json.dumps(colours))
