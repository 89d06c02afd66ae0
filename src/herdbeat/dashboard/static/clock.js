// Relative times tick in the browser, by the clock of the server: theirs may differ.
const MAX_SKEW_MS = 2000;
let offset = 0;

export function setServerTime(text, at = Date.now()) {
  offset = Date.parse(text) - at;
}

export function serverNow() {
  return Date.now() + offset;
}

// As herdbeat prints durations: the two largest units.
export function humanize(ms) {
  let s = Math.abs(Math.round(ms / 1000));
  for (const [large, size, small, part] of [["d", 86400, "h", 3600], ["h", 3600, "m", 60], ["m", 60, "s", 1]]) {
    if (s >= size) {
      const rest = Math.floor((s % size) / part);
      return rest ? `${Math.floor(s / size)}${large} ${rest}${small}` : `${Math.floor(s / size)}${large}`;
    }
  }
  return `${s}s`;
}

export function tick(scope = document) {
  const now = serverNow();
  for (const each of scope.querySelectorAll("time[data-rel]")) {
    const distance = Date.parse(each.dateTime) - now;
    const text = Math.abs(distance) < 1000 ? "now" : distance > 0 ? `in ${humanize(distance)}` : `${humanize(distance)} ago`;
    if (each.textContent !== text) each.textContent = text;
  }
  for (const each of scope.querySelectorAll("[data-elapsed]")) {
    each.textContent = humanize(now - Date.parse(each.dataset.elapsed));
  }
}

// What was planned on this clock and read on the other would be wrong by as much: say it.
function showSkew() {
  const place = document.getElementById("skew");
  if (!place || Math.abs(offset) <= MAX_SKEW_MS) return;
  place.textContent = `this device is ${humanize(offset)} ${offset > 0 ? "slow" : "fast"}`;
  place.hidden = false;
}

export function startClock() {
  const [load] = performance.getEntriesByType("navigation"); // a page that loads slowly is not a clock that is fast
  setServerTime(document.documentElement.dataset.now, load ? performance.timeOrigin + load.responseStart : Date.now());
  showSkew();
  setInterval(() => document.hidden || tick(), 1000);
}
