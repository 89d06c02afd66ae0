// The log of a run: follows while the run goes on, and finds text.
export function startLog() {
  const log = document.getElementById("log");
  if (!log) return;
  const follow = document.getElementById("log-follow");
  const search = document.getElementById("log-search");
  search?.addEventListener("input", () => find(log, search.value));
  if (!log.dataset.follow) return;
  follow.closest("label").hidden = false;
  const source = new EventSource(log.dataset.follow);
  let number = 0;
  source.addEventListener("log", (event) => {
    const entry = JSON.parse(event.data);
    if (entry.stream === "ended") { source.close(); location.reload(); return; }
    if (entry.stream === "started") return;
    number += 1;
    if (number <= Number(log.dataset.lines)) return;
    log.append(line(number, entry));
    if (follow.checked) log.scrollTop = log.scrollHeight;
    if (search?.value) find(log, search.value);
  });
}

function line(number, entry) {
  const row = document.createElement("div");
  row.id = `L${number}`;
  row.className = `log-line ${entry.stream}`;
  const link = document.createElement("a");
  link.className = "line";
  link.href = `#L${number}`;
  link.textContent = number;
  const text = document.createElement("span");
  // Colours come with the next page: until then the codes are left out.
  text.textContent = entry.text.replace(/\u001b\[[0-9;]*[A-Za-z]/g, "");
  row.append(link, text);
  return row;
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
