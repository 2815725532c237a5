// Comfort of the knowledge pages: results while somebody types, files as notes, and a batch as it is worked on.

const PAUSE = 200;

const search = document.querySelector("form[data-search]");
if (search) {
  const query = search.elements.q;
  const status = document.getElementById("status");
  const results = document.getElementById("results");
  const rest = document.getElementById("rest");
  let timer;
  let running;

  const show = (html, text, fault) => {
    results.innerHTML = html;
    status.textContent = text;
    status.classList.toggle("error", fault);
    status.classList.toggle("soft", !fault);
    if (fault) query.setAttribute("aria-invalid", "true"); else query.removeAttribute("aria-invalid");
    results.removeAttribute("aria-busy");
  };

  const look = async () => {
    clearTimeout(timer);
    running?.abort();
    const asked = query.value.trim();
    rest.hidden = asked !== "";
    if (asked === "") {
      history.replaceState(null, "", search.dataset.home);
      show("", "", false);
      return;
    }
    const address = `${search.action}?${new URLSearchParams(new FormData(search))}`;
    history.replaceState(null, "", address);
    running = new AbortController();
    results.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(address, { headers: { "X-Part": "results" }, signal: running.signal });
      // Whoever is not signed in any more is asked to.
      if (answer.redirected) return location.reload();
      const html = await answer.text();
      if (!answer.ok) throw new Error(answer.status);
      const drawn = new DOMParser().parseFromString(html, "text/html").querySelector("[data-status]");
      show(html, drawn?.dataset.status ?? "", drawn?.dataset.fault !== undefined);
    } catch (error) {
      if (error.name !== "AbortError") show("", "The search could not be done right now. Try again in a moment.", true);
    }
  };

  const soon = () => { clearTimeout(timer); timer = setTimeout(look, PAUSE); };
  query.addEventListener("input", soon);
  search.elements.space.addEventListener("change", () => { if (query.value.trim() !== "") look(); });
  search.addEventListener("submit", (event) => { event.preventDefault(); look(); });
  results.addEventListener("click", (event) => {
    if (!event.target.closest("[data-clear]")) return;
    event.preventDefault();
    query.value = "";
    look();
    query.focus();
  });
}

// Files are read here and sent as notes: hidden fields that the form sends with the others.
const add = document.querySelector("form[data-add]");
if (add) {
  const place = add.querySelector("[data-files]");
  const chooser = place.querySelector("input[type=file]");
  const fault = place.querySelector("[data-files-fault]");
  const list = place.querySelector("ul");
  const most = Number(add.dataset.bytesMax);
  const readable = /\.(txt|text|md|markdown)$/i;
  place.hidden = false;

  const hidden = (name, value) => {
    const field = document.createElement("input");
    field.type = "hidden";
    field.name = name;
    field.value = value;
    return field;
  };

  const take = async (file) => {
    if (!readable.test(file.name) && !file.type.startsWith("text/")) return `${file.name} is neither text nor Markdown.`;
    if (file.size > most) return `${file.name} is larger than ${Math.floor(most / 1024)} KiB.`;
    let text;
    try {
      text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    } catch {
      return `${file.name} is not text in UTF-8.`;
    }
    if (text.trim() === "") return `${file.name} is empty.`;
    const row = document.createElement("li");
    const name = document.createElement("span");
    name.className = "what";
    name.textContent = file.name;
    const remove = document.createElement("button");
    remove.type = "button";
    remove.className = "second";
    remove.textContent = "Leave out";
    remove.setAttribute("aria-label", `Leave out ${file.name}`);
    remove.addEventListener("click", () => { row.remove(); chooser.focus(); });
    row.append(name, remove, hidden("title", file.name.replace(readable, "")), hidden("text", text));
    list.append(row);
    return "";
  };

  const takeAll = async (files) => {
    const faults = [];
    for (const file of files) faults.push(await take(file));
    fault.textContent = faults.filter((words) => words !== "").join(" ");
    fault.hidden = fault.textContent === "";
  };

  chooser.addEventListener("change", async () => {
    await takeAll([...chooser.files]);
    chooser.value = "";
  });
  const carriesFiles = (event) => [...event.dataTransfer.types].includes("Files");
  add.addEventListener("dragover", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    add.classList.add("dropping");
  });
  add.addEventListener("dragleave", () => add.classList.remove("dropping"));
  add.addEventListener("drop", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    add.classList.remove("dropping");
    takeAll([...event.dataTransfer.files]);
  });
}

// An export is sent a few lines at a time, so that a person sees how far it is; what was sent twice changes nothing.
const importing = document.querySelector("form[data-import]");
if (importing) {
  const AT_ONCE = 50;
  const BYTES_AT_ONCE = 1_000_000;
  const [chooser, button, status] = ["input", "button", "[role=status]"].map((name) => importing.querySelector(name));
  chooser.addEventListener("change", () => { button.disabled = chooser.files.length === 0; });
  const send = async (lines) => {
    const body = new URLSearchParams({ lines: lines.join("\n") });
    const answer = await fetch(importing.dataset.action, { method: "POST", body });
    if (answer.redirected || !answer.ok) throw new Error(answer.status);
    return answer.json();
  };
  importing.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    const counts = { created: 0, existing: 0, failed: 0 };
    const faults = [];
    const words = () => `${counts.created} added, ${counts.existing} known already${counts.failed ? `, ${counts.failed} not imported` : ""}`;
    try {
      const lines = (await chooser.files[0].text()).split("\n").filter((line) => line.trim() !== "");
      for (let at = 0; at < lines.length;) {
        const part = [];
        let bytes = 0;
        while (at < lines.length && part.length < AT_ONCE && (part.length === 0 || bytes + lines[at].length < BYTES_AT_ONCE)) {
          bytes += lines[at].length;
          part.push(lines[at++]);
        }
        const outcome = await send(part);
        for (const name of Object.keys(counts)) counts[name] += outcome[name];
        faults.push(...outcome.faults);
        status.textContent = `${at} of ${lines.length} lines: ${words()}.`;
      }
      status.textContent = lines.length === 0 ? "The file is empty." : `Done: ${words()}. ${faults.slice(0, 3).join(" ")}`;
    } catch {
      status.textContent = `The import stopped: ${words()}. Import the file again to continue; nothing is added twice.`;
    }
    button.disabled = false;
  });
}

const live = document.querySelector("[data-stream]");
if (live) {
  const status = document.querySelector("[data-status]");
  const source = new EventSource(live.dataset.stream);
  live.hidden = true;
  let words = "";
  // A screen reader should not read out each of hundreds of changes.
  const announce = setInterval(() => { if (status.textContent !== words) status.textContent = words; }, 1000);

  const put = (id, html) => {
    const old = document.getElementById(id);
    if (!old) return;
    const holder = document.createElement("template");
    holder.innerHTML = html.trim();
    const next = holder.content.firstElementChild;
    const focused = old.contains(document.activeElement);
    old.replaceWith(next);
    if (focused) next.querySelector("a, button")?.focus();
  };

  source.addEventListener("message", (event) => {
    const news = JSON.parse(event.data);
    for (const [id, html] of Object.entries(news.parts)) put(id, html);
    words = news.status;
    if (news.done) {
      source.close();
      clearInterval(announce);
      status.textContent = words;
    }
  });
  // The browser joins again by itself, unless it is sent away.
  source.addEventListener("error", () => { if (source.readyState === EventSource.CLOSED) live.hidden = false; });
}
