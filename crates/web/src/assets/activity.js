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

// j and k go from event to event; Enter opens the one with the focus.
const rows = () => [...document.querySelectorAll("#events .fold > summary, #events [data-row]")].filter((row) => row.checkVisibility());
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  if (event.key !== "j" && event.key !== "k") return;
  const all = rows();
  const here = all.indexOf(document.activeElement);
  const next = event.key === "j" ? all[here + 1] : all[here < 0 ? all.length - 1 : Math.max(here - 1, 0)];
  if (!next) return;
  next.focus();
  next.scrollIntoView({ block: "nearest" });
  event.preventDefault();
});
