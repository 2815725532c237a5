// Comfort of the activity page: a note when events arrive, and keys. The page works without it.

const EVERY = 5000;
const EVERY_MAX = 60000;

const news = document.querySelector("#news[data-live]");
if (news) {
  const status = document.querySelector("#news-status");
  let wait = EVERY;
  let timer;
  const ask = async () => {
    try {
      const address = new URL(news.dataset.news, location.href);
      address.searchParams.set("after", news.dataset.after);
      const answer = await fetch(address, { cache: "no-store", redirect: "error" });
      if (!answer.ok) throw new Error(`${answer.status}`);
      const { count, more } = await answer.json();
      wait = EVERY;
      if (count > 0) {
        const words = `${more ? "More than " : ""}${count} new ${count === 1 ? "event" : "events"}`;
        if (news.textContent !== words) news.textContent = status.textContent = words;
        news.hidden = false;
      }
      if (more) return;
    } catch {
      // Signed out, or not reachable: less and less often.
      wait = Math.min(wait * 2, EVERY_MAX);
    }
    plan();
  };
  const plan = () => {
    clearTimeout(timer);
    if (document.visibilityState === "visible") timer = setTimeout(ask, wait);
  };
  document.addEventListener("visibilitychange", plan);
  plan();
}

// A running session: its parts are loaded again after each change, while the page is visible.
const live = document.querySelector("[data-stream]");
if (live) {
  let source;
  let isOver = false;

  const put = (next) => {
    for (const old of document.querySelectorAll("[data-part]")) {
      const part = next.querySelector(`[data-part="${old.dataset.part}"]`);
      if (!part) continue;
      const focused = old.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
      old.replaceWith(part);
      const again = focused && [...part.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused);
      again?.focus();
      if (again?.matches("[data-row]")) select(again);
    }
  };

  const join = () => {
    source = new EventSource(live.dataset.stream);
    source.addEventListener("message", async ({ data }) => {
      const { new: count, done } = JSON.parse(data);
      if (done) {
        isOver = true;
        source.close();
      }
      if (!count && !done) return;
      try {
        const answer = await fetch(location.href, { cache: "no-store", redirect: "error" });
        if (answer.ok) put(new DOMParser().parseFromString(await answer.text(), "text/html"));
        live.textContent = `${count ?? 0} new ${count === 1 ? "event" : "events"}${done ? ". It is not updated any more." : ""}`;
      } catch {
        // The next change tries again.
      }
    });
  };
  const change = () => {
    source?.close();
    if (!isOver && document.visibilityState === "visible") join();
  };
  document.addEventListener("visibilitychange", change);
  change();
}

// j and k go from event to event; Enter or a click opens one next to the list, Escape closes it. Without this, a click opens its page.
const drawer = document.querySelector("#drawer");
const rows = () => [...document.querySelectorAll("#events [data-row]")];
const part = (name) => drawer.querySelector(`#drawer-${name}`);
let current;

const select = (row) => {
  current?.closest("li").removeAttribute("aria-current");
  current = row;
  row.closest("li").setAttribute("aria-current", "true");
  row.scrollIntoView({ block: "nearest" });
};

const open = async (row) => {
  select(row);
  const line = row.closest("li");
  const words = (selector) => line.querySelector(selector)?.textContent ?? "";
  const badge = line.querySelector(".badge[class*=tone-]");
  part("title").replaceChildren(row.textContent, ...(badge ? [" ", badge.cloneNode(true)] : []));
  part("facts").replaceChildren(`${words(".lane")} · ${words(".source")} · `, ...[line.querySelector("time")?.cloneNode(true) ?? ""]);
  part("open").href = row.href;
  part("content").replaceChildren("Loading …");
  if (!drawer.open) drawer.showModal();
  try {
    const answer = await fetch(row.href, { redirect: "error" });
    if (!answer.ok) throw new Error(`${answer.status}`);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const content = page.querySelector("[data-drawer]");
    if (current === row && content) part("content").replaceChildren(...content.children);
    else if (current === row) location.assign(row.href);
  } catch {
    if (current === row) part("content").replaceChildren("The event cannot be shown here at the moment.");
  }
};

if (drawer) {
  document.querySelector("#events").addEventListener("click", (event) => {
    const row = event.target.closest("[data-row]");
    if (!row || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    open(row);
  });
  part("close").addEventListener("click", () => drawer.close());
  drawer.addEventListener("close", () => current?.focus());
  // A click next to the drawer closes it, or opens the event below.
  drawer.addEventListener("click", (event) => {
    if (event.target !== drawer) return;
    const box = drawer.getBoundingClientRect();
    if (event.clientX >= box.left && event.clientX <= box.right && event.clientY >= box.top && event.clientY <= box.bottom) return;
    drawer.close();
    const row = document.elementFromPoint(event.clientX, event.clientY)?.closest("#events .event")?.querySelector("[data-row]");
    if (row) open(row);
  });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  if (event.key !== "j" && event.key !== "k") return;
  const all = rows();
  const here = all.indexOf(drawer?.open || !all.includes(document.activeElement) ? current : document.activeElement);
  const next = event.key === "j" ? all[here + 1] : all[here < 0 ? all.length - 1 : Math.max(here - 1, 0)];
  if (!next) return;
  event.preventDefault();
  if (drawer?.open) {
    open(next);
  } else {
    select(next);
    next.focus();
  }
});
