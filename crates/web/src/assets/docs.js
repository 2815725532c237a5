// Comfort of the description of the API: a filter over its operations, the language of the samples, links that open what they name.

const operations = [...document.querySelectorAll("details.operation")];
const filter = document.getElementById("filter");
const status = document.getElementById("filtered");

function narrow() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const operation of operations) {
    const text = operation.textContent.toLowerCase();
    const fits = words.every((word) => text.includes(word));
    operation.hidden = !fits;
    document.querySelector(`[data-for="${operation.id}"]`).hidden = !fits;
    if (fits) shown += 1;
  }
  for (const section of document.querySelectorAll(".operations")) {
    const is_empty = !section.querySelector("details.operation:not([hidden])");
    section.hidden = is_empty;
    document.querySelector(`nav h2 a[href="#${section.id}"]`).parentElement.hidden = is_empty;
  }
  status.textContent = words.length === 0 ? "" : `${shown} of ${operations.length} operations`;
}
filter.addEventListener("input", narrow);

function openNamed() {
  const named = document.getElementById(location.hash.slice(1));
  if (!(named instanceof HTMLDetailsElement)) return;
  if (named.hidden) {
    filter.value = "";
    narrow();
    named.scrollIntoView();
  }
  named.open = true;
}
addEventListener("hashchange", openNamed);
openNamed();

const KEY = "language of samples";
const languages = [...document.querySelectorAll("input[name=language]")];
const wanted = languages.find(({ id }) => id === localStorage.getItem(KEY));
if (wanted) wanted.checked = true;
for (const language of languages) language.addEventListener("change", () => localStorage.setItem(KEY, language.id));
