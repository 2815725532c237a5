// Comfort that pages do without: times that stay true, six boxes for six digits, choices that save themselves.

const units = [["year", 31536000], ["month", 2592000], ["day", 86400], ["hour", 3600], ["minute", 60]];

function relative(then) {
  const seconds = Math.round((then - Date.now()) / 1000);
  // What has just been given 30 minutes should not say 29.
  const span = seconds > 0 ? seconds + 30 : -seconds;
  for (const [unit, size] of units) {
    const count = Math.floor(span / size);
    if (count > 0) {
      const words = `${count} ${unit}${count === 1 ? "" : "s"}`;
      return seconds > 0 ? `in ${words}` : `${words} ago`;
    }
  }
  return "just now";
}

function tellTimes() {
  for (const time of document.querySelectorAll("time[datetime]")) {
    time.textContent = relative(Date.parse(time.dateTime));
  }
}
setInterval(tellTimes, 30000);

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
