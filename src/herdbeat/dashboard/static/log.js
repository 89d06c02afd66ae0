// The log of a run: follows while the run goes on, and finds text.
import { refreshSoon } from "./live.js";

export function startLog() {
  const log = document.getElementById("log");
  if (!log) return;
  const follow = document.getElementById("log-follow");
  const search = document.getElementById("log-search");
  search.addEventListener("input", () => find(log, search.value));
  if (!log.dataset.follow) return;
  follow.closest("label").hidden = false;
  new MutationObserver(() => {
    if (search.value) find(log, search.value);
    else if (follow.checked) log.scrollTop = log.scrollHeight;
  }).observe(log, { childList: true });
  const source = new EventSource(log.dataset.follow);
  source.addEventListener("log", (event) => {
    if (JSON.parse(event.data).stream !== "ended") return refreshSoon();
    source.close();
    location.reload(); // the answer is there now
  });
}

function find(log, wanted) {
  let first = null;
  for (const row of log.children) {
    const isFound = wanted && row.textContent.toLowerCase().includes(wanted.toLowerCase());
    row.classList.toggle("found", Boolean(isFound));
    if (isFound && !first) first = row;
  }
  first?.scrollIntoView({ block: "nearest" });
}
