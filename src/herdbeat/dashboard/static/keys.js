// Keys: / ? j k Enter Esc, and g with a letter. No key changes anything, and one switch turns them all off.
export function startKeys(cookiePath) {
  const root = document.documentElement;
  const help = document.getElementById("help");
  const button = document.getElementById("help-button");
  let prefix = false;

  button?.addEventListener("click", () => help.showModal());
  document.getElementById("keys-switch")?.addEventListener("change", (event) => {
    root.dataset.keys = event.target.checked ? "on" : "off";
    document.cookie = `herdbeat_keys=${root.dataset.keys};path=${cookiePath};max-age=31536000;samesite=strict`;
  });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || root.dataset.keys === "off") return;
    const inField = event.target.matches("input, textarea, select");
    if (event.key === "Escape") {
      if (inField) event.target.blur();
      for (const menu of document.querySelectorAll("details.menu[open]")) menu.open = false;
      select(null);
      return;
    }
    if (inField || help.open) return;
    const wasPrefix = prefix;
    prefix = event.key === "g";
    if (wasPrefix) {
      const link = document.querySelector(`.tabs a[data-key="${CSS.escape(event.key)}"]`);
      if (link) link.click();
    } else if (event.key === "/") {
      event.preventDefault();
      document.getElementById("search")?.focus();
    } else if (event.key === "?") help.showModal();
    else if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "Enter" && event.target === document.body) {
      const row = document.querySelector("[data-open].selected");
      if (row) location.href = row.dataset.open;
    }
  });
}

function move(step) {
  const rows = [...document.querySelectorAll("main [data-open]")];
  const at = rows.findIndex((each) => each.classList.contains("selected"));
  select(rows[Math.min(Math.max(at + step, 0), rows.length - 1)]);
}

function select(row) {
  for (const each of document.querySelectorAll("[data-open].selected")) each.classList.remove("selected");
  row?.classList.add("selected");
  row?.scrollIntoView({ block: "nearest" });
}
