import { html, useState } from "../vendor/ui.js";
import { Choice, Copy, EXAMPLES, LayerSlider, State, TextField, heat, json, tsv, useAnswer } from "../common.js";

export default function Compare({ model, params, set }) {
  const left = params.a ?? EXAMPLES.text, right = params.b ?? EXAMPLES.other;
  const kind = params.raw === "1" ? "raw" : "centred";
  const { data, error, busy } = useAnswer("/api/similarity", left.trim() && right.trim() ? { left, right, model: model.name } : null);
  const [at, setAt] = useState([-1, -1]);
  const layers = data ? Object.keys(data.centred).filter((name) => name !== "mix").concat("mix") : ["mix"];
  const layer = layers.includes(params.layer) ? params.layer : "mix";
  const matrix = data ? data[kind][layer] : [];
  const best = matrix.map((row) => row.indexOf(Math.max(...row)));
  const rows = () => [["", ...data.right], ...matrix.map((row, i) => [data.left[i], ...row])];
  return html`
    <section class="panel"><div class="grid2">
      <${TextField} label="First sentence" value=${left} onInput=${(value) => set({ a: value })}/>
      <${TextField} label="Second sentence" value=${right} onInput=${(value) => set({ b: value })}/></div>
    </section>
    <section class="panel">
      <div class="row spread">
        <${LayerSlider} layers=${layers} value=${layer} onChange=${(value) => set({ layer: value })}/>
        <${Choice} label="Cosine similarity" value=${kind} options=${[["centred", "centred"], ["raw", "raw"]]} onChange=${(value) => set({ raw: value === "raw" ? "1" : undefined })}/>
        ${data && html`<div class="row"><${Copy} name="TSV" text=${() => tsv(rows())}/><${Copy} name="JSON" text=${() => json(data)}/></div>`}
      </div>
      <p class="context">${kind === "centred" ? `The mean vector of the ${data && data.centre === "corpus" ? "corpus" : "two sentences"} is subtracted first: states of an LSTM share a direction, which raw cosines count as similarity.` : "Raw cosines are high for most pairs, since the states of an LSTM share a direction."} Blue is similar, orange opposed; a frame marks the best match of each row.</p>
      ${error ? html`<${State} error=${error}/>` : !data || !data.left.length || !data.right.length ? html`<${State} busy=${busy} hint="Type two sentences to compare their words."/>` : html`
      <div class="scroll" tabindex="0" role="region" aria-label="Similarities, scrollable"><table class="heatmap" onMouseLeave=${() => setAt([-1, -1])}>
        <caption class="sr">${kind} cosine similarity of each word of the first sentence (rows) with each word of the second (columns), layer ${layer}</caption>
        <thead><tr><th scope="col"><span class="sr">first sentence</span></th>${data.right.map((word, j) => html`<th scope="col" class=${at[1] === j ? "hot" : ""}><span>${word}</span></th>`)}</tr></thead>
        <tbody>${matrix.map((row, i) => html`<tr><th scope="row" class=${at[0] === i ? "hot" : ""}>${data.left[i]}</th>
          ${row.map((value, j) => html`<td class=${best[i] === j ? "best" : ""} style=${heat(value)} onMouseEnter=${() => setAt([i, j])} title=${`${data.left[i]} – ${data.right[j]}: ${value.toFixed(3)}`}>${value.toFixed(2).replace("-0.00", "0.00").replace("0.", ".").replace("-.", "−.")}</td>`)}</tr>`)}</tbody>
      </table></div>`}
    </section>`;
}
