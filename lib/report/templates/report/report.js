"use strict";
// Everything can be read without this: it adds what follows the reader.
const all = (selector) => [...document.querySelectorAll(selector)];

function openFor(hash) {
  const name = hash.slice(1);
  const target = name && (document.getElementById(name) || document.getElementById(decodeURIComponent(name)));
  if (!target) return;
  for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  target.scrollIntoView();
}
addEventListener("hashchange", () => openFor(location.hash));
addEventListener("load", () => openFor(location.hash));

// What scrolls sideways can be reached by keyboard; a table says that it scrolls, under a name of its own.
function markWideTables() {
  for (const code of all("pre")) code.scrollWidth > code.clientWidth ? code.tabIndex = 0 : code.removeAttribute("tabindex");
  const boxes = all("div.table"), wide = (box) => box.scrollWidth > box.clientWidth + 1;
  for (const box of boxes) box.classList.remove("wraps", "scrolls");  // or what fits thanks to them would lose them again
  for (const box of boxes.filter(wide)) box.classList.add("wraps");
  for (const [number, box] of boxes.entries()) {
    const scrolls = wide(box);
    box.classList.toggle("scrolls", scrolls);
    if (!scrolls) { box.removeAttribute("tabindex"); box.removeAttribute("role"); continue; }
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    const caption = box.querySelector("caption");
    box.setAttribute("aria-label", `Table ${number + 1}, scrolls sideways: ${caption ? caption.textContent.slice(0, 80) : ""}`);
  }
}
markWideTables();
// Many folds may open at once, and each says so: all are looked at together.
let marking = false;
function markSoon() {
  if (marking) return;
  marking = true;
  setTimeout(() => { marking = false; markWideTables(); }, 0);
}
addEventListener("resize", markSoon);
document.addEventListener("toggle", markSoon, true);

const links = new Map(all("nav.toc a").map((link) => [link.getAttribute("href").slice(1), link]));
function followReader() {
  const line = 120;
  let current = null;
  for (const heading of all("main h2[id]")) if (links.has(heading.id) && heading.getBoundingClientRect().top < line) current = heading.id;
  for (const [id, link] of links) {
    if (id !== current) { link.removeAttribute("aria-current"); continue; }
    if (link.hasAttribute("aria-current")) continue;
    link.setAttribute("aria-current", "location");
    const box = link.closest("nav");
    if (box.scrollHeight > box.clientHeight) box.scrollTop = link.offsetTop - box.clientHeight / 2;
  }
}
let waiting = false;
addEventListener("scroll", () => {
  if (waiting) return;
  waiting = true;
  setTimeout(() => { waiting = false; followReader(); }, 50);
}, { passive: true });
followReader();

for (const button of all("button.all-folds")) {
  button.hidden = false;
  button.addEventListener("click", () => {
    const open = button.getAttribute("aria-pressed") !== "true";
    for (const fold of all(button.dataset.folds)) fold.open = open;
    button.setAttribute("aria-pressed", String(open));
    button.textContent = `${open ? "Hide" : "Show"} ${button.dataset.what}`;
  });
}

// The meaning of a term goes away with Escape, without moving the focus.
addEventListener("keydown", (event) => { if (event.key === "Escape") document.body.classList.add("no-tips"); });
for (const kind of ["focusin", "mouseover"]) {
  addEventListener(kind, (event) => { if (event.target.closest && event.target.closest(".term")) document.body.classList.remove("no-tips"); });
}
