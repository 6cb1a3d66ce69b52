// Documents: a file becomes a job; its pages are shown as they are done, each block beside its place on the page.
"use strict";

export const $ = (id) => document.getElementById(id);

export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") element.className = value;
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

export async function ask(path, options = {}) {
  const key = sessionStorage.getItem("docai-key");
  const headers = { ...(options.headers || {}), ...(key ? { authorization: `Bearer ${key}` } : {}) };
  const response = await fetch(path, { ...options, headers });
  if (response.ok) return response;
  if (response.status === 401) $("key-field").hidden = false;
  const said = await response.json().catch(() => null);
  throw new Error(said?.error?.message || `the server answered with ${response.status}`);
}

// The events of a stream, as {event, data}.
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    held += value;
    const parts = held.split("\n\n");
    held = parts.pop();
    for (const part of parts) {
      const found = { event: "message", data: "" };
      for (const line of part.split("\n")) {
        const at = line.indexOf(": ");
        if (at > 0) found[line.slice(0, at)] = line.slice(at + 2);
      }
      if (found.data) yield found;
    }
  }
}

export function tell(error) {
  $("wrong").textContent = error ? error.message : "";
  $("wrong").hidden = !error;
}

// --- tabs

const tabs = [...document.querySelectorAll('[role="tab"]')];
function show(tab) {
  for (const one of tabs) {
    const on = one === tab;
    one.setAttribute("aria-selected", on);
    one.tabIndex = on ? 0 : -1;
    $(one.getAttribute("aria-controls")).hidden = !on;
  }
}
for (const tab of tabs) {
  tab.addEventListener("click", () => show(tab));
  tab.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    const next = tabs[(tabs.indexOf(tab) + 1) % tabs.length];
    show(next);
    next.focus();
  });
}
$("key").value = sessionStorage.getItem("docai-key") || "";
$("key").addEventListener("change", () => {
  sessionStorage.setItem("docai-key", $("key").value);
  document.dispatchEvent(new Event("key"));
});

// --- blocks

const TAGS = { bold: "strong", italic: "em", code: "code", superscript: "sup", subscript: "sub" };

// A text with its styles and links. Spans are cut where others begin, so that they may overlap.
function styled(text, spans = []) {
  const letters = [...text];
  const edges = new Set([0, letters.length]);
  for (const span of spans) edges.add(span.start).add(span.end);
  const places = [...edges].filter((at) => at <= letters.length).sort((a, b) => a - b);
  const out = document.createDocumentFragment();
  for (let n = 0; n + 1 < places.length; n += 1) {
    let node = document.createTextNode(letters.slice(places[n], places[n + 1]).join(""));
    for (const span of spans) {
      if (span.start > places[n] || span.end < places[n + 1]) continue;
      if (TAGS[span.style]) node = make(TAGS[span.style], {}, node);
      if (/^https?:\/\//.test(span.link || "")) node = make("a", { href: span.link, rel: "noreferrer noopener", target: "_blank" }, node);
    }
    out.append(node);
  }
  return out;
}

function table(said) {
  const rows = Array.from({ length: said.rows }, () => make("tr"));
  for (const cell of said.cells) {
    const span = (size) => (size > 1 ? size : null);
    rows[cell.row].append(make(cell.header ? "th" : "td", { rowspan: span(cell.rowspan), colspan: span(cell.colspan), dir: "auto" }, cell.text));
  }
  return make("div", { class: "scroll" }, make("table", {}, ...rows));
}

function content(block) {
  if (block.table) return table(block.table);
  const marker = block.marker ? `${block.marker} ` : "";
  const text = [marker, styled(block.text, block.spans)];
  if (block.label === "title") return make("h3", { dir: "auto" }, ...text);
  if (block.label === "heading") return make((block.level || 1) > 2 ? "h4" : "h3", { dir: "auto" }, ...text);
  if (block.label === "code") return make("pre", {}, block.text);
  if (block.kind === "figure") return make("p", { dir: "auto" }, block.text ? `Figure: ${block.text}` : "Figure");
  return make("p", { dir: "auto" }, ...text);
}

function light(pair, on) {
  for (const part of pair) part.classList.toggle("lit", on);
}

function linked(box, block) {
  const pair = [box, block];
  for (const part of pair) {
    const other = part === box ? block : box;
    for (const name of ["mouseenter", "focus"]) part.addEventListener(name, () => light(pair, true));
    for (const name of ["mouseleave", "blur"]) part.addEventListener(name, () => light(pair, false));
    part.addEventListener("click", (event) => {
      if (event.target.closest("a")) return;
      other.scrollIntoView({ block: "nearest" });
      other.focus({ preventScroll: true });
    });
  }
  block.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.target !== block) return;
    event.preventDefault(); // else the box, which is in focus by then, would take the key for a click and lead back
    block.click();
  });
}

function sheet(page, picture) {
  const [width, height] = page.size;
  const paper = make("div", { class: "paper" }, picture);
  paper.style.aspectRatio = `${width} / ${height}`;
  paper.style.maxWidth = `calc((100vh - 6rem) * ${width / height})`;
  const says = make("div", { class: "says" });
  for (const reason of page.outcome.reasons) says.append(make("p", { class: "note" }, reason));
  page.blocks.forEach((block, number) => {
    const kind = `is-${block.label}`;
    const name = `${number + 1}: ${block.label.replace("_", " ")}`;
    const box = make("button", { type: "button", class: `box ${kind}`, "aria-label": name, title: name }, make("span", { "aria-hidden": "true" }, String(number + 1)));
    const { l, t, r, b } = block.box;
    Object.assign(box.style, { left: `${(100 * l) / width}%`, top: `${(100 * t) / height}%`, width: `${(100 * (r - l)) / width}%`, height: `${(100 * (b - t)) / height}%` });
    const part = make("div", { class: `block ${kind}`, tabindex: "0" }, content(block));
    for (const child of block.children || []) part.append(make("p", { class: "is-caption", dir: "auto" }, styled(child.text, child.spans)));
    linked(box, part);
    paper.append(box);
    says.append(part);
  });
  return make("section", { class: "sheet", "aria-label": `Page ${page.number}` }, make("h2", {}, `Page ${page.number}`), make("div", { class: "view" }, paper), says);
}

// --- jobs

const FORMATS = { markdown: "md", text: "txt", json: "json", jsonl: "jsonl", html: "html", hocr: "hocr", alto: "xml", csv: "csv", chunks: "chunks.jsonl", pdf: "pdf", png: "png" };
for (const format of Object.keys(FORMATS)) $("format").append(make("option", { value: format }, format));

let current = null;

async function read(file) {
  const mine = (current = { name: file.name, urls: [] });
  tell(null);
  $("sheets").replaceChildren();
  $("formats").hidden = true;
  $("bar").hidden = false;
  $("stop").hidden = false;
  $("progress").removeAttribute("value");
  $("said").textContent = `Sending ${file.name}`;
  const form = new FormData();
  form.append("ocr", $("ocr").value);
  if ($("pages").value.trim()) form.append("pages", $("pages").value.trim());
  form.append("file", file);
  try {
    const job = await (await ask("/v1/jobs", { method: "POST", body: form })).json();
    mine.id = job.id;
    if (current !== mine) return;
    $("said").textContent = `Reading ${file.name}`;
    for await (const { event, data } of events(await ask(`/v1/jobs/${job.id}/events`))) {
      if (current !== mine) return;
      const told = JSON.parse(data);
      if (event === "page") await arrived(mine, told);
      else ended(mine, event, told);
    }
  } catch (error) {
    if (current !== mine) return;
    $("bar").hidden = true;
    tell(error);
  }
}

async function arrived(job, told) {
  job.done = (job.done || 0) + 1;
  $("progress").max = told.pages;
  $("progress").value = job.done;
  $("said").textContent = `${job.done} of ${told.pages} pages`;
  const path = `/v1/jobs/${job.id}/pages/${told.page}`;
  const page = await (await ask(path)).json();
  const picture = make("img", { alt: `Page ${page.number}`, decoding: "async" });
  const made = sheet(page, picture);
  const after = [...$("sheets").children].find((one) => Number(one.dataset.page) > page.number);
  made.dataset.page = page.number;
  $("sheets").insertBefore(made, after || null);
  if (page.size[0]) ask(`${path}/image`).then((response) => response.blob()).then((blob) => { picture.src = URL.createObjectURL(blob); }).catch(() => {});
}

function ended(job, state, told) {
  $("stop").hidden = true;
  if (state === "failed") {
    $("bar").hidden = true;
    tell(new Error(told.error?.message || "the document could not be read"));
    return;
  }
  $("said").textContent = state === "done" ? `${job.name}: ${told.pages.done} page${told.pages.done === 1 ? "" : "s"} read` : `${job.name}: stopped`;
  $("formats").hidden = false;
}

const result = (format) => ask(`/v1/jobs/${current.id}/result?format=${format}&images=embed`);

$("stop").addEventListener("click", () => current?.id && ask(`/v1/jobs/${current.id}/cancel`, { method: "POST" }).catch(tell));
$("copy").addEventListener("click", async () => {
  try {
    const text = await (await ask(`/v1/jobs/${current.id}/result?format=markdown`)).text();
    await navigator.clipboard.writeText(text);
    $("said").textContent = "Copied";
  } catch (error) { tell(error); }
});
$("download").addEventListener("click", async () => {
  const format = $("format").value;
  try {
    const link = make("a", { download: `${current.name.replace(/\.[^.]*$/, "")}.${FORMATS[format]}` });
    link.href = URL.createObjectURL(await (await result(format)).blob());
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  } catch (error) { tell(error); }
});
$("file").addEventListener("change", () => { if ($("file").files[0]) read($("file").files[0]); $("file").value = ""; });
$("choose").addEventListener("submit", (event) => event.preventDefault());

export function droppable(element, take) {
  element.addEventListener("dragover", (event) => { event.preventDefault(); element.classList.add("over"); });
  element.addEventListener("dragleave", () => element.classList.remove("over"));
  element.addEventListener("drop", (event) => { event.preventDefault(); element.classList.remove("over"); take([...event.dataTransfer.files]); });
}
droppable($("read"), (files) => { if (files[0]) read(files[0]); });
