// Live updates: an event says that something changed; the page is fetched again, and its live parts are replaced by id.
// So the first page, the update and the page without scripts come from the same templates.
import { setServerTime, tick } from "./clock.js";

const BATCH_MS = 500;
const MIN_INTERVAL_MS = 1500;
const ANNOUNCE_MS = 10000;
const RECONNECT_MS = 5000;
const MAX_AGE_MS = 30000; // what no event of this page tells, such as how full the fleet is

let source = null;
let timer = 0;
let lastFetch = 0;
let lastAnnounced = 0;
let isFetching = false;

export function startLive() {
  document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : (connect(), refreshSoon())));
  document.addEventListener("pointerout", (event) => {
    const part = event.target.closest?.("[data-pending]");
    if (part && !part.contains(event.relatedTarget)) refreshSoon();
  });
  setInterval(refreshSoon, MAX_AGE_MS);
  if (!document.hidden) connect();
}

function connect() {
  if (source) return;
  const base = document.documentElement.dataset.base;
  const target = document.querySelector("main [data-target]")?.dataset.target;
  source = new EventSource(`${base}/api/v1/events${target ? `?target=${encodeURIComponent(target)}` : ""}`);
  for (const name of ["run.started", "run.finished", "beat.ran", "beat.skipped", "beat.missed", "beat.merged", "schedule.changed",
    "schedule.late", "schedule.failing", "schedule.recovered", "budget.exceeded", "hint.set", "hint.ended", "node.joined", "node.lost",
    "config.applied", "config.rejected", "resync"]) {
    source.addEventListener(name, refreshSoon);
  }
  source.addEventListener("changed", ({ data }) => { // many things at once, perhaps none of them on this page
    const { targets } = JSON.parse(data);
    if (!target || !targets || targets.includes(target)) refreshSoon();
  });
  source.onopen = () => show("on", "live");
  source.onerror = () => {
    show("off", "reconnecting, as of");
    if (source?.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
    // It was refused, and the browser gives up: the session has ended, or a proxy has no server behind it.
    source = null;
    setTimeout(() => document.hidden || (connect(), refreshSoon()), RECONNECT_MS);
  };
}

function disconnect() {
  source?.close();
  source = null;
  show("off", "as of");
}

function show(state, word) {
  const live = document.getElementById("live");
  if (!live) return;
  live.dataset.state = state;
  document.getElementById("live-word").textContent = word;
}

export function refreshSoon() {
  if (timer || document.hidden) return;
  timer = setTimeout(refresh, Math.max(BATCH_MS, lastFetch + MIN_INTERVAL_MS - Date.now()));
}

async function refresh() {
  timer = 0;
  if (isFetching) return refreshSoon();
  isFetching = true;
  lastFetch = Date.now();
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
    if (answer.redirected || [401, 403, 404].includes(answer.status)) location.reload(); // signed out, or deleted
    else if (answer.ok) apply(new DOMParser().parseFromString(await answer.text(), "text/html"));
  } catch {
    show("off", "reconnecting, as of");
  } finally {
    isFetching = false;
  }
}

function apply(fresh) {
  setServerTime(fresh.documentElement.dataset.now);
  const stamp = fresh.querySelector("#live time");
  if (stamp) document.querySelector("#live time")?.replaceWith(stamp);
  for (const part of document.querySelectorAll("[data-live]")) {
    const other = fresh.getElementById(part.id);
    if (!other || other.isEqualNode(part)) continue;
    if (isInUse(part)) hold(part, other);
    else replace(part, other);
  }
  appendLines(fresh);
  announce();
  tick();
}

// A log only grows: its new lines come from the same template as the first ones, with their colours.
function appendLines(fresh) {
  const log = document.getElementById("log");
  const known = Number(log?.lastElementChild?.id.slice(1) || 0);
  for (const line of fresh.querySelectorAll("#log > .log-line")) if (Number(line.id.slice(1)) > known) log?.append(line);
}

function replace(part, other) {
  const open = new Set([...part.querySelectorAll("details[open][id]")].map((each) => each.id));
  const scrolled = [...part.querySelectorAll(".chart-box")].map((each) => each.scrollLeft);
  part.replaceWith(other);
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  other.querySelectorAll(".chart-box").forEach((each, index) => (each.scrollLeft = scrolled[index] || 0));
}

// Order never changes under the pointer, and a selection, an open menu or a form that somebody fills in is left alone.
function isInUse(part) {
  const selection = getSelection();
  return part.matches(":hover") || part.contains(document.activeElement) || part.querySelector("input:checked[data-select], .menu[open]")
    || [...part.querySelectorAll("input, textarea")].some((each) => each.value !== each.defaultValue)
    || (selection && !selection.isCollapsed && part.contains(selection.anchorNode));
}

// Lines that are still there are updated where they are; what came or went waits behind a button.
function hold(part, other) {
  const before = rowIds(part), after = rowIds(other);
  for (const row of part.querySelectorAll("[data-open][id]")) {
    const same = other.querySelector(`#${CSS.escape(row.id)}`);
    if (same && !row.contains(document.activeElement) && !row.matches(":hover") && !row.isEqualNode(same)) row.replaceWith(same.cloneNode(true));
  }
  part.dataset.pending = "";
  const count = after.filter((each) => !before.includes(each)).length;
  if (!before.length || (!count && before.join() === after.join())) return;
  let pill = part.querySelector(".pill");
  if (!pill) {
    pill = document.createElement("button");
    pill.type = "button";
    pill.className = "pill";
    pill.addEventListener("click", () => { pill.remove(); delete part.dataset.pending; document.activeElement?.blur(); replace(part, other); });
    part.prepend(pill);
  }
  pill.textContent = count ? `${count} new` : "update";
}

function rowIds(part) {
  return [...part.querySelectorAll("[data-open][id]")].map((each) => each.id);
}

function announce() {
  const place = document.getElementById("announce");
  const text = [...document.querySelectorAll("#counters .counter")].slice(0, 4).map((each) => each.innerText.split("\n").slice(0, 2).join(" ")).join(", ");
  if (!place || !text || Date.now() - lastAnnounced < ANNOUNCE_MS || place.dataset.said === text) return;
  lastAnnounced = Date.now();
  if (place.dataset.said) place.textContent = text;
  place.dataset.said = text;
}
