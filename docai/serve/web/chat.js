// Chat: a conversation with a model, about pictures and documents if it sees, as it comes.
"use strict";

import { $, ask, droppable, events, make } from "./app.js";

let turns = [];
let added = [];
let halt = null;

async function models() {
  let found = [];
  try {
    found = (await (await ask("/v1/models")).json()).data.filter((model) => model.tasks?.includes("chat"));
  } catch { /* the key is missing: asked again when it is there */ }
  $("model").replaceChildren(...found.map((model) => make("option", { value: model.id }, model.id)));
  $("no-model").hidden = found.length > 0;
  $("ask").hidden = found.length === 0;
}
models();
document.addEventListener("key", models);

const content = (file) => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve(reader.result);
  reader.onerror = () => reject(reader.error);
  reader.readAsDataURL(file);
});

async function add(files) {
  for (const file of files) added.push({ name: file.name, image: file.type.startsWith("image/"), url: await content(file) });
  pictures($("shown"), added);
}

function pictures(place, files) {
  place.replaceChildren(...files.map((file) => (file.image ? make("img", { src: file.url, alt: file.name }) : make("span", { class: "name" }, file.name))));
}

function part(file) {
  if (file.image) return { type: "image_url", image_url: { url: file.url } };
  return { type: "file", file: { filename: file.name, file_data: file.url } };
}

async function send() {
  const text = $("question").value.trim();
  if (!text || halt) return;
  const files = added;
  added = [];
  pictures($("shown"), []);
  $("question").value = "";
  const asked = { role: "user", content: files.length ? [...files.map(part), { type: "text", text }] : text };
  const mine = make("div", { class: "turn mine", dir: "auto" });
  if (files.length) { const row = make("div", { class: "shown" }); pictures(row, files); mine.append(row); }
  mine.append(text);
  const thought = make("div", { class: "thought", hidden: "" });
  const said = make("div", { dir: "auto" });
  const told = make("div", { class: "told" });
  const answer = make("div", { class: "turn", "aria-busy": "true" }, thought, said, told);
  $("turns").append(mine, answer);
  answer.scrollIntoView({ block: "end" });
  halt = new AbortController();
  $("send").hidden = true;
  $("halt").hidden = false;
  const began = performance.now();
  try {
    const body = { model: $("model").value, messages: [...turns, asked], stream: true, stream_options: { include_usage: true } };
    const response = await ask("/v1/chat/completions", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal: halt.signal });
    for await (const { data } of events(response)) {
      if (data === "[DONE]") break;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new Error(chunk.error.message);
      const delta = chunk.choices[0]?.delta || {};
      const follow = innerHeight + scrollY >= document.documentElement.scrollHeight - 60; // unless it is read higher up
      if (delta.reasoning_content) { thought.hidden = false; thought.append(delta.reasoning_content); }
      if (delta.content) said.append(delta.content);
      if (chunk.choices[0]?.finish_reason === "length") told.append("cut off at the most tokens · ");
      if (follow) scrollTo({ top: document.documentElement.scrollHeight, behavior: "instant" });
      if (chunk.usage) told.append(`${chunk.usage.completion_tokens} tokens in ${((performance.now() - began) / 1000).toFixed(1)} s`);
    }
    turns.push(asked, { role: "assistant", content: said.textContent });
  } catch (error) {
    if (error.name === "AbortError") {
      turns.push(asked, { role: "assistant", content: said.textContent });
      told.textContent = "stopped";
    } else {
      answer.append(make("p", { class: "wrong", role: "alert" }, error.message));
    }
  }
  answer.removeAttribute("aria-busy");
  halt = null;
  $("send").hidden = false;
  $("halt").hidden = true;
}

$("ask").addEventListener("submit", (event) => { event.preventDefault(); send(); });
$("question").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); send(); }
});
$("halt").addEventListener("click", () => halt?.abort());
$("anew").addEventListener("click", () => { turns = []; added = []; pictures($("shown"), []); $("turns").replaceChildren(); });
$("picture").addEventListener("change", () => { add([...$("picture").files]); $("picture").value = ""; });
droppable($("ask"), add);
