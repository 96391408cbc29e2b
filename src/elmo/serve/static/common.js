// What views share: calls to the server, state in the URL, controls. Text enters the page as text only.
import { html, useEffect, useRef, useState } from "./vendor/ui.js";

export const EXAMPLES = {
  text: "The bank raised its rates on Monday as oil prices fell .",
  other: "Children played on the bank of the river all day .",
};

// A token comes in the fragment of the first link; it is kept for this tab only and taken off the URL.
export function takeToken() {
  const found = /^#token=([^&/]+)/.exec(location.hash);
  if (!found) return;
  sessionStorage.setItem("token", decodeURIComponent(found[1]));
  history.replaceState(null, "", location.pathname + "#/sentence");
}

export async function api(path, body, signal) {
  const token = sessionStorage.getItem("token");
  const headers = body ? { "content-type": "application/json" } : {};
  if (token) headers.authorization = `Bearer ${token}`;
  let answer;
  try {
    answer = await fetch(path, { method: body ? "POST" : "GET", headers, signal, body: body && JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw Object.assign(new Error("The server cannot be reached."), { status: 0 });
  }
  // A page that has moved on aborts the call, perhaps while its answer is being read: that is no empty answer.
  const content = await answer.json().catch((error) => { if (answer.ok) throw error; return {}; });
  if (!answer.ok) throw Object.assign(new Error(content.detail || content.title || `The server answered ${answer.status}.`), { status: answer.status });
  return content;
}

export function readHash() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { view: path || "sentence", params: Object.fromEntries(new URLSearchParams(query)) };
}

export function useHash() {
  const [hash, setHash] = useState(readHash());
  useEffect(() => {
    const listen = () => setHash(readHash());
    addEventListener("hashchange", listen);
    return () => removeEventListener("hashchange", listen);
  }, []);
  const go = (view, params) => {
    const clean = Object.entries(params).filter(([, value]) => value !== undefined && value !== null); // "" is a text, too
    const query = new URLSearchParams(clean).toString();
    history.replaceState(null, "", `#/${view}${query ? "?" + query : ""}`);
    setHash(readHash());
  };
  return [hash, go];
}

// Ask the server whenever `body` changes, a little later; answers that were overtaken are dropped.
export function useAnswer(path, body, wait = 250) {
  const [state, setState] = useState({ busy: !!body, data: null, error: "" });
  const key = body && JSON.stringify(body);
  const first = useRef(true);
  useEffect(() => {
    if (!key) { setState({ busy: false, data: null, error: "" }); return undefined; }
    const controller = new AbortController();
    setState((old) => ({ ...old, busy: true }));
    const timer = setTimeout(() => api(path, JSON.parse(key), controller.signal).then(
      (data) => { if (!controller.signal.aborted) setState({ busy: false, data, error: "" }); },
      (error) => { if (!controller.signal.aborted) setState({ busy: false, data: null, error: error.message }); },
    ), first.current ? 0 : wait);
    first.current = false;
    return () => { clearTimeout(timer); controller.abort(); };
  }, [path, key]);
  return state;
}

// An error, or work under way, or what to do where there is nothing to show.
export function State({ busy, error, text = "Computing …", hint = "" }) {
  if (error) return html`<p class="state error" role="alert">${error}</p>`;
  return html`<p class="state" role="status">${busy ? html`<span class="spin" aria-hidden="true"></span>${text}` : hint}</p>`;
}

export function Context({ info, model, view, layer }) {
  const corpus = info.corpus;
  const uses = ["sentence", "map", "compare"].includes(view) && corpus.state !== "none";
  return html`<div class="context" aria-label="What is shown">
    ${view === "classify" ? html`<span>classifier with <b>${info.classifier ? info.classifier.labels.length : 0} labels</b></span>`
      : html`<span>model <b>${view === "map" || view === "sentence" ? info.default_model : model.name}</b></span>`}
    ${view === "compare" || view === "map" ? html`<span>layer <b>${layerName(layer ?? (view === "map" ? String(model.layers) : "mix"))}</b></span>`
      : view === "sentence" ? html`<span>layers <b>0 to ${model.layers}</b></span>`
      : ["predict", "surprisal"].includes(view) && html`<span>softmax on layer <b>${model.layers}</b></span>`}
    ${uses && html`<span>corpus <b>${corpus.name}</b>${corpus.state === "ready" ? `, ${corpus.words.toLocaleString("en")} words` : ""}</span>`}
    ${uses && corpus.state === "building" && html`<span>indexing <progress max="1" value=${corpus.progress} aria-label="Indexing the corpus"></progress></span>`}
    ${uses && corpus.state === "failed" && html`<span class="state error">${corpus.message}</span>`}
  </div>`;
}

export const layerName = (layer) => layer === "mix" || layer === "average" ? layer : `${layer}${layer === "0" ? ", the word alone" : ""}`;

export function TextField({ label, value, onInput, rows = 2 }) {
  return html`<label class="grow">${label}<textarea rows=${rows} value=${value} spellcheck="false" maxlength="20000" onInput=${(e) => onInput(e.target.value)}></textarea></label>`;
}

export function Choice({ label, value, options, onChange }) {
  return html`<div class="label"><span id=${"l-" + label.replace(/\W/g, "")}>${label}</span><div class="group" role="group" aria-labelledby=${"l-" + label.replace(/\W/g, "")}>
    ${options.map(([name, text]) => html`<button type="button" aria-pressed=${String(value === name)} onClick=${() => onChange(name)}>${text}</button>`)}
  </div></div>`;
}

export function LayerSlider({ layers, value, onChange }) {
  const index = Math.max(0, layers.indexOf(value));
  return html`<label class="slider">Layer: ${layerName(layers[index])}
    <input type="range" min="0" max=${layers.length - 1} step="1" value=${index} aria-valuetext=${layerName(layers[index])} onInput=${(e) => onChange(layers[+e.target.value])}/>
    <span class="ticks" aria-hidden="true">${layers.map((layer, i) => html`<span class=${i > 0 && i === layers.length - 1 ? "last" : ""} style=${{ left: `calc(.5rem + (100% - 1rem) * ${layers.length > 1 ? i / (layers.length - 1) : 0})` }}>${i === index ? html`<b>${layer}</b>` : layer}</span>`)}</span>
  </label>`;
}

export function Copy({ name, text }) {
  const [done, setDone] = useState("");
  const copy = async () => {
    const content = text();
    try { await navigator.clipboard.writeText(content); setDone("Copied"); } catch { save(new Blob([content], { type: "text/plain" }), `elmo.${name.toLowerCase()}`); setDone("Saved"); }
    setTimeout(() => setDone(""), 1500);
  };
  return html`<button type="button" class="button" onClick=${copy} aria-live="polite">${done || `Copy as ${name}`}</button>`;
}

export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

export const tsv = (rows) => rows.map((row) => row.map((cell) => String(cell).replace(/[\t\r\n]/g, " ")).join("\t")).join("\n") + "\n";
export const json = (value) => JSON.stringify(value, null, 2) + "\n";
export const signed = (value, digits) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(digits)}`;
export const percent = (value) => value >= 0.0995 ? `${(100 * value).toFixed(0)}%` : value >= 0.001 ? `${(100 * value).toFixed(1)}%` : "<0.1%";

// A background for a value from -1 to 1, and a text colour that stays readable on it.
export function heat(value) {
  const strength = Math.min(1, Math.abs(value)) ** 0.9;
  return { background: `rgb(var(--${value >= 0 ? "pos" : "neg"}) / calc(${strength.toFixed(3)} * var(--deepest)))` };
}

export function Bars({ items, direction, onPick, pressed, label }) {
  const most = Math.max(...items.map((item) => item.value), 1e-9);
  const inside = (item) => html`<i style=${{ width: `${(100 * item.value) / most}%` }}></i><span>${item.name}</span><em>${item.text ?? percent(item.value)}</em>`;
  return html`<ul class="bars" aria-label=${label}>${items.map((item) => html`<li key=${item.name}>${onPick
    ? html`<button type="button" class=${"bar " + direction} aria-pressed=${pressed === undefined ? null : String(pressed === item.name)} onClick=${() => onPick(item.name)}>${inside(item)}</button>`
    : html`<div class=${"bar " + direction}>${inside(item)}</div>`}</li>`)}</ul>`;
}

export function Kwic({ items }) {
  return html`<ol class="kwic">${items.map((item) => html`<li title=${item.words.join(" ")}>
    <span class="sim">${item.similarity === null ? "" : item.similarity.toFixed(3)}</span>
    <span class="left"><span>${item.words.slice(0, item.position).join(" ")}</span></span>
    <mark>${item.words[item.position]}</mark>
    <span class="right">${item.words.slice(item.position + 1).join(" ")}</span></li>`)}</ol>`;
}
