// Comfort that pages do without: times that stay true, copying, keys for the search, six boxes for six digits, choices that save themselves.

const MINUTE = 60, HOUR = 3600, DAY = 86400, MONTH = 2629800, YEAR = 31557600;

// The words of a distance in seconds from now; negative ones are over. The server writes the same words: rounded to the nearest unit,
// days up to 59, months up to 23.
export function relative(seconds) {
  const span = Math.abs(seconds);
  const count = (unit) => Math.floor((span + unit / 2) / unit);
  const units = [[MINUTE, 60, "minute"], [HOUR, 24, "hour"], [DAY, 60, "day"], [MONTH, 24, "month"], [YEAR, Infinity, "year"]];
  const [unit, , name] = units.find(([unit, end]) => count(unit) < end);
  const number = count(unit);
  if (number === 0) return "just now";
  const words = `${number} ${name}${number === 1 ? "" : "s"}`;
  return seconds > 0 ? `in ${words}` : `${words} ago`;
}

function refreshTimes() {
  for (const time of document.querySelectorAll("time[datetime]:not([data-exact])")) {
    time.textContent = relative(Math.trunc((Date.parse(time.dateTime) - Date.now()) / 1000));
  }
}
setInterval(refreshTimes, 30000);

// Copying. `data-copy` is the text, or "#id" of the element that has it.
async function copy(text) {
  try {
    return await navigator.clipboard.writeText(text);
  } catch {
    // Over plain http, and without the permission, browsers offer only the old way.
  }
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "visually-hidden";
  document.body.append(field);
  field.select();
  const is_done = document.execCommand("copy");
  field.remove();
  if (!is_done) throw new Error("not copied");
}

const spoken = document.createElement("p");
spoken.className = "visually-hidden";
spoken.setAttribute("role", "status");

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button.copy");
  if (!button || button.classList.contains("is-done")) return;
  const { copy: wanted } = button.dataset;
  const source = wanted.startsWith("#") ? document.getElementById(wanted.slice(1)) : null;
  const label = button.textContent;
  const name = button.getAttribute("aria-label");
  const say = (words) => {
    button.textContent = words;
    button.removeAttribute("aria-label");
    document.body.append(spoken);
    spoken.textContent = words;
  };
  try {
    await copy(source ? (source.value ?? source.textContent).trim() : wanted);
    button.classList.add("is-done");
    say("Copied");
  } catch {
    say("Not copied");
  }
  button.focus();
  setTimeout(() => {
    button.textContent = label;
    if (name !== null) button.setAttribute("aria-label", name);
    button.classList.remove("is-done");
    spoken.textContent = "";
  }, 2000);
});

// "/" and Ctrl-K or ⌘K lead to the search of the page, or to the page with the search.
document.addEventListener("keydown", (event) => {
  const is_slash = event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey;
  const is_k = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey;
  if (!is_slash && !is_k) return;
  if (is_slash && event.target.closest("input, textarea, select, [contenteditable]")) return;
  const field = [...document.querySelectorAll("main input[type=search]")].find((field) => field.checkVisibility());
  const page = document.body.dataset.searchAt;
  if (!field && !page) return;
  event.preventDefault();
  if (field) { field.focus(); field.select(); } else location.assign(`${page}#q`);
});
if (location.hash === "#q") document.getElementById("q")?.focus();

// The current place of a navigation that scrolls sideways.
document.querySelector(".top .tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

// A menu closes with Escape, and when something else is used.
document.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && event.target.closest?.("details.menu[open]");
  if (menu) { menu.open = false; menu.querySelector("summary").focus(); }
});
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
});
document.addEventListener("focusin", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
});

// A button that may be used again after some seconds.
for (const button of document.querySelectorAll("button[data-wait]")) {
  const label = button.textContent;
  const end = Date.now() + 1000 * Number(button.dataset.wait);
  const count = () => {
    const left = Math.ceil((end - Date.now()) / 1000);
    button.disabled = left > 0;
    button.textContent = left > 0 ? `${label} (${left} s)` : label;
    if (left > 0) setTimeout(count, 500);
  };
  count();
}

// One field for the code becomes six boxes; the field stays, hidden, and is what the form sends.
for (const field of document.querySelectorAll("input[data-boxes]")) {
  const count = Number(field.dataset.boxes);
  const group = document.createElement("div");
  group.className = "digits";
  group.setAttribute("role", "group");
  group.setAttribute("aria-labelledby", field.dataset.label);
  const boxes = Array.from({ length: count }, (_, place) => {
    const box = document.createElement("input");
    box.inputMode = "numeric";
    box.autocomplete = place === 0 ? "one-time-code" : "off";
    box.setAttribute("aria-label", `Digit ${place + 1} of ${count}`);
    if (field.getAttribute("aria-invalid")) box.setAttribute("aria-invalid", "true");
    if (field.getAttribute("aria-describedby")) box.setAttribute("aria-describedby", field.getAttribute("aria-describedby"));
    group.append(box);
    return box;
  });
  const collect = () => { field.value = boxes.map((box) => box.value).join(""); };
  const fill = (from, text) => {
    const digits = text.replace(/\D/g, "").slice(0, count - from);
    [...digits].forEach((digit, offset) => { boxes[from + offset].value = digit; });
    collect();
    boxes[Math.min(from + digits.length, count - 1)].focus();
  };
  boxes.forEach((box, place) => {
    box.addEventListener("input", () => {
      const typed = box.value;
      box.value = "";
      // What was there and what was typed: the newest digit counts, and a pasted code fills the boxes.
      const digits = typed.replace(/\D/g, "");
      if (digits.length > 2) fill(0, digits); else fill(place, digits.slice(-1));
    });
    box.addEventListener("keydown", (event) => {
      if (event.key === "Backspace" && box.value === "" && place > 0) {
        boxes[place - 1].value = "";
        boxes[place - 1].focus();
        collect();
        event.preventDefault();
      } else if (event.key === "ArrowLeft" && place > 0) {
        boxes[place - 1].focus();
      } else if (event.key === "ArrowRight" && place < count - 1) {
        boxes[place + 1].focus();
      }
    });
    box.addEventListener("focus", () => box.select());
    box.addEventListener("paste", (event) => {
      event.preventDefault();
      fill(0, event.clipboardData.getData("text"));
    });
  });
  field.after(group);
  field.type = "hidden";
  if (field.autofocus) boxes[0].focus();
}

// A choice in a form of its own is saved when it is made.
for (const form of document.querySelectorAll("form[data-saves-itself]")) {
  form.querySelector("button")?.setAttribute("hidden", "");
  form.addEventListener("change", () => form.requestSubmit());
}
