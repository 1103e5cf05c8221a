// Fetches the page again every few seconds and puts its new content in place. Where no answer comes, it says so loudly:
// an old page must not look like a new one.
"use strict";
const EVERY_MS = 5000, HIDDEN_S = 55, DEADLINE_MS = 12000, LATE_S = 20;
let failed = "", asking = false, title = document.title;

function age() {
  return Math.max(0, Math.round((Date.now() - shownAt) / 1000));
}

function words(seconds) {
  if (seconds < 120) return seconds + " s";
  const minutes = Math.round(seconds / 60);
  return minutes < 120 ? minutes + " min" : Math.round(minutes / 60) + " h";
}

// The ages are counted by the browser's own clock from when the answer came: the two clocks may differ.
let shownAt = Date.now();

function tell() {
  const alarm = document.getElementById("alarm"), late = age() > (document.hidden ? 4 * HIDDEN_S : LATE_S) || failed !== "";
  document.body.classList.toggle("stale", late);
  alarm.hidden = !late;
  if (late) {
    const why = failed || (selecting() ? "Not refreshed while text is selected" : "No answer yet");
    alarm.textContent = why + ". What stands below is " + words(age()) + " old.";
  }
  document.title = (late ? "Old: " : "") + title;
  document.getElementById("age").textContent = ", " + words(age()) + " ago";
}

function selecting() {
  const chosen = window.getSelection();
  return chosen !== null && !chosen.isCollapsed;
}

function put(text) {
  const next = new DOMParser().parseFromString(text, "text/html");
  const log = document.getElementById("log");
  const above = log === null ? 0 : log.scrollHeight - log.clientHeight - log.scrollTop;
  const top = log === null ? 0 : log.scrollTop;
  document.querySelector("main").replaceWith(next.querySelector("main"));
  document.querySelector("#shown time").replaceWith(next.querySelector("#shown time"));
  title = next.title;
  end(above > 8 ? top : null);
}

// The log's pane stands at its end, unless somebody scrolled up in it.
function end(top) {
  const log = document.getElementById("log");
  if (log !== null) log.scrollTop = top === null ? log.scrollHeight : top;
}

async function refresh() {
  if (asking || selecting() || (document.hidden && age() < HIDDEN_S)) return;
  asking = true;
  const control = new AbortController(), timer = setTimeout(() => control.abort(), DEADLINE_MS);
  try {
    const answer = await fetch(location.href, {signal: control.signal, cache: "no-store", credentials: "same-origin"});
    const text = await answer.text();
    if (answer.ok) {
      put(text);
      shownAt = Date.now();
      failed = "";
    } else {
      const said = new DOMParser().parseFromString(text, "text/html").querySelector("main li");
      failed = "The server answers " + answer.status + ": " + (said === null ? text.slice(0, 200) : said.textContent);
    }
  } catch (error) {
    failed = "The server does not answer";
  } finally {
    clearTimeout(timer);
    asking = false;
    tell();
  }
}

if (document.body.dataset.live === "1") {
  const span = document.createElement("span");
  span.id = "age";
  document.getElementById("shown").append(span);
  end(null);
  tell();
  setInterval(tell, 1000);
  setInterval(refresh, EVERY_MS);
  document.addEventListener("visibilitychange", refresh);
}
