// Consent: the number of changed levels, and what a level that follows another one would be.

const form = document.getElementById("consent");
if (form) {
  const selects = [...form.querySelectorAll("select[data-was]")];
  const status = document.getElementById(form.dataset.counts);
  const words = { off: "Nothing", "metadata-only": "No content", full: "Everything" };
  const chosen = (name) => selects.find((select) => select.name === name)?.value ?? "";

  const strictness = ["off", "metadata-only", "full"];

  // The most specific other choice: the computer for all lanes, then all computers for the lane, then all computers for all lanes.
  // A computer that gets a level for all lanes now keeps the lanes that are stricter for all computers.
  function followed(scope, lane) {
    const all = selects.find((select) => select.name === `${scope}.all`);
    const general = chosen(`all.${lane}`);
    const stricter = general !== "" && strictness.indexOf(general) < strictness.indexOf(all?.value);
    if (scope !== "all" && lane !== "all" && all?.dataset.was === "" && general !== "mixed" && stricter) return general;
    const names = scope === "all" ? ["all.all"] : [`${scope}.all`, `all.${lane}`, "all.all"];
    return names.filter((name) => name !== `${scope}.${lane}`).map(chosen).find((value) => value !== "") ?? "";
  }

  function refresh() {
    const changed = selects.filter((select) => select.value !== select.dataset.was);
    for (const select of selects) {
      select.closest(".level").classList.toggle("is-changed", select.value !== select.dataset.was);
      select.closest(".level").classList.toggle("is-own", select.value !== "");
    }
    if (form.querySelector('select[name^="all."]')) {
      for (const select of selects) {
        const [scope, lane] = select.name.split(".");
        if (scope === "all" && lane === "all") continue;
        const level = followed(scope, lane);
        if (level !== "mixed") select.querySelector('option[value=""]').textContent = `Follows: ${words[level] ?? "not chosen"}`;
      }
    }
    const count = changed.length;
    status.textContent = count === 0 ? "No changes" : count === 1 ? "1 change, not saved" : `${count} changes, not saved`;
    form.querySelector(".savebar").classList.toggle("is-changed", count > 0);
  }

  form.addEventListener("change", refresh);
  form.addEventListener("reset", () => setTimeout(refresh));
  refresh();
}
