import { html } from "../vendor/ui.js";
import { Bars, Copy, State, TextField, heat, json, signed, tsv, useAnswer } from "../common.js";

const EXAMPLE = "The central bank raised interest rates on Monday after the coach of the national team resigned .";

export default function Classify({ info, params, set }) {
  const text = params.text ?? EXAMPLE;
  const tokens = useAnswer("/api/tokenize", text.trim() ? { text } : null);
  const words = tokens.data ? tokens.data.words.map((one) => one.word) : [];
  const struck = new Set((params.out ?? "").split(",").filter(Boolean).map(Number));
  const kept = words.filter((_, i) => !struck.has(i));
  const body = info.classifier && words.length ? { texts: [words], explain: true, ...(params.label ? { label: params.label } : {}) } : null;
  const { data, error, busy } = useAnswer("/api/classify", body, 0);
  const changed = useAnswer("/api/classify", struck.size && kept.length ? { texts: [kept] } : null, 0);
  if (!info.classifier) return html`<${State} error="This server has no classifier; start it with --classifier FOLDER."/>`;
  const explained = words.length && data && data.contributions;
  const most = explained ? Math.max(...explained.values.map(Math.abs), 1e-9) : 1;
  const before = data && data.results[0].probabilities;
  const after = struck.size && changed.data ? changed.data.results[0].probabilities : null;
  const shown = after || before;
  const strike = (i) => { const next = new Set(struck); next.has(i) ? next.delete(i) : next.add(i); set({ out: [...next].sort((a, b) => a - b).join(",") || undefined }); };
  const mix = info.classifier.mix;
  return html`
    <section class="panel"><div class="row"><${TextField} label="Text" value=${text} onInput=${(value) => set({ text: value, out: undefined, label: undefined })}/></div></section>
    ${error || tokens.error ? html`<${State} error=${error || tokens.error}/>` : !explained ? html`<${State} busy=${busy || tokens.busy} text="Sampling the order of words …" hint="Type a text to see its label and what each word contributes."/>` : html`
    <div class="grid2">
      <section class="panel"><h2>Label${struck.size ? " without the words struck out" : ""}</h2>
        <${Bars} label="Probabilities; choose a label to explain" direction="plain" pressed=${explained.label} onPick=${(label) => set({ label })}
          items=${data.labels.map((name) => ({ name, value: shown[name], text: `${(100 * shown[name]).toFixed(1)}%${after ? ` (${signed(100 * (after[name] - before[name]), 1)})` : ""}` }))}/>
        <p class="context">Choose a label to see which words speak for it.</p></section>
      <section class="panel"><h2>Layers in the classifier</h2>
        ${mix && mix.weights ? html`<${Bars} label="Layer weights" direction="both" items=${mix.weights.map((value, i) => ({ name: `layer ${i}`, value, text: value.toFixed(3) }))}/><p class="context">γ = ${mix.gamma.toFixed(3)}, the scale of the weighted sum</p>`
          : html`<p class="context">${Object.entries(info.classifier.parts).map(([name, weight]) => `${name}: ${weight.toFixed(2)}`).join(", ")}</p>`}</section>
    </div>
    <section class="panel">
      <div class="row spread"><h2>What speaks for “${explained.label}”</h2><div class="row">
        ${struck.size > 0 && html`<button type="button" class="button" onClick=${() => set({ out: undefined })}>Restore words</button>`}
        <${Copy} name="TSV" text=${() => tsv([["token_id", "token", "contribution", "standard_error"], ...explained.words.map((word, i) => [i + 1, word, explained.values[i].toFixed(5), explained.errors[i].toFixed(5)])])}/><${Copy} name="JSON" text=${() => json(data)}/></div></div>
      <div class="words" role="group" aria-label="Words; press to strike out">${explained.words.map((word, i) => html`
        <button type="button" class=${"word heat" + (struck.has(i) ? " struck" : "")} style=${heat(explained.values[i] / most)} aria-pressed=${String(struck.has(i))} onClick=${() => strike(i)} title=${`${signed(explained.values[i], 3)} ± ${explained.errors[i].toFixed(3)}; press to strike out`}
          >${word}<small>${signed(explained.values[i], 2)}</small></button>`)}</div>
      <p class="context">Sampled Shapley values: log-probability of no words ${signed(explained.base, 3)}, plus all contributions, is ${signed(explained.log_probability, 3)}. Blue speaks for the label, orange against it. Press words to strike them out.</p>
    </section>`}`;
}
