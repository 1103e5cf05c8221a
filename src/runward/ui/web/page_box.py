"""The page of this box, of the same value as `runward top --box` draws."""

from runward.ui import markup, view_box


def main(page: view_box.Page) -> markup.Markup:
    """Everything under the frame."""
    return markup.join(
        markup.say("h1", page.host),
        _memory(page.memory),
        markup.say("p", page.machine),
        *(_table(one) for one in page.tables),
        _listed("Kills for memory", page.oom, "bad"),
        _listed("Not observable", page.blind, "warn"),
    )


def _memory(bar: view_box.Bar | None) -> markup.Markup:
    if bar is None:
        return markup.say("p", "memory: not observable", class_="none")
    meter = markup.say(
        "meter", f"{bar.percent} %", min=0, max=100, low=75, high=90, optimum=0, value=bar.percent
    )
    return markup.element(
        "p", markup.join(markup.text("memory "), meter, markup.text(f" {bar.percent} % {bar.text}"))
    )


def _table(one: view_box.Table) -> markup.Markup:
    parts = [markup.say("h2", one.title), *(markup.say("p", line) for line in one.above)]
    if one.rows:
        rows = [markup.element("tr", [markup.say("td", cell) for cell in row]) for row in one.rows]
        parts.append(markup.table(one.head, rows))
    else:
        parts.append(markup.say("p", one.empty, class_="none"))
    return markup.element("section", parts)


def _listed(title: str, lines: tuple[str, ...], tone: str) -> markup.Markup:
    if not lines:
        return markup.Markup("")
    return markup.element("section", [markup.say("h2", title), markup.listed(lines, class_=tone)])
