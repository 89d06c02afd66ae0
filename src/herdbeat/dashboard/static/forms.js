// Forms that answer while one types, buttons that copy, and boxes that select many lines.
export function startForms() {
  for (const form of document.querySelectorAll("form[data-auto]")) {
    form.addEventListener("change", (event) => event.target.matches("select") && form.requestSubmit());
  }
  document.addEventListener("submit", (event) => {
    // The address keeps only what was chosen.
    if (event.target.method !== "get") return;
    for (const field of event.target.elements) if (field.name && !field.value) field.disabled = true;
  });
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "copied";
  });
  document.addEventListener("change", (event) => {
    const all = event.target.closest("[data-select-all]");
    if (all) for (const box of document.querySelectorAll("[data-select]")) box.checked = all.checked;
    if (event.target.matches("[data-select], [data-select-all]")) count();
  });
  count();
}

function count() {
  const place = document.getElementById("selected-count");
  if (!place) return;
  const number = document.querySelectorAll("[data-select]:checked").length;
  place.textContent = number ? `${number} selected` : place.dataset.none;
}
