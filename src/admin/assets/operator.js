// Renews the parts of the page that are marked with data-live, unless it is hidden, paused, or being used.
const every = 5000;
const pause = document.querySelector("#pause");
const silent = document.querySelector("#silent");
document.querySelector("#renewal").hidden = false;

async function renew() {
  if (document.hidden || pause.checked) return;
  try {
    const response = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(2 * every) });
    if (!response.ok) throw new Error(response.statusText);
    const next = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const fresh = next.getElementById(part.id);
      const used = part.contains(document.activeElement) || getSelection().containsNode(part, true) && !getSelection().isCollapsed;
      const ticked = part.querySelector("input:checked");
      if (fresh && !used && !ticked && fresh.innerHTML !== part.innerHTML) part.replaceChildren(...fresh.childNodes);
    }
    document.title = next.title;
    silent.hidden = true;
  } catch {
    silent.hidden = false;
  }
}

async function keepRenewing() {
  await renew();
  setTimeout(keepRenewing, every);
}
setTimeout(keepRenewing, every);
