"""The page of this box, of the same value as `runward top --box` draws."""

from runward.ui import view_box
from runward.ui.web import shell


def main(page: view_box.Page) -> shell.Markup:
    """Everything under the frame."""
    return shell.join(
        shell.say("h1", page.host),
        _memory(page.memory),
        shell.say("p", page.machine),
        *(_table(one) for one in page.tables),
        _listed("Kills for memory", page.oom, "bad"),
        _listed("Not observable", page.blind, "warn"),
    )


def _memory(bar: view_box.Bar | None) -> shell.Markup:
    if bar is None:
        return shell.say("p", "memory: not observable", class_="none")
    meter = shell.say(
        "meter", f"{bar.percent} %", min=0, max=100, low=75, high=90, optimum=0, value=bar.percent
    )
    return shell.element(
        "p", shell.join(shell.text("memory "), meter, shell.text(f" {bar.percent} % {bar.text}"))
    )


def _table(one: view_box.Table) -> shell.Markup:
    parts = [shell.say("h2", one.title), *(shell.say("p", line) for line in one.above)]
    if one.rows:
        rows = [shell.element("tr", [shell.say("td", cell) for cell in row]) for row in one.rows]
        parts.append(shell.table(one.head, rows))
    else:
        parts.append(shell.say("p", one.empty, class_="none"))
    return shell.element("section", parts)


def _listed(title: str, lines: tuple[str, ...], tone: str) -> shell.Markup:
    if not lines:
        return shell.Markup("")
    return shell.element("section", [shell.say("h2", title), shell.listed(lines, class_=tone)])
