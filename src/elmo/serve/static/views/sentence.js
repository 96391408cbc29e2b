import { html } from "../vendor/ui.js";
import { Choice, Copy, EXAMPLES, Kwic, State, TextField, json, tsv, useAnswer } from "../common.js";

export default function Sentence({ info, params, set }) {
  const model = info.models.find((one) => one.name === info.default_model);
  const spells = model.input !== "words", marks = model.input !== "characters";
  const text = params.text ?? EXAMPLES.text;
  const distinct = params.distinct ?? "word";
  const tokens = useAnswer("/api/tokenize", text.trim() ? { text } : null);
  const words = tokens.data ? tokens.data.words : [];
  const wanted = params.word === undefined ? 1 : +params.word;
  const position = Math.min(Math.max(0, wanted), Math.max(0, words.length - 1));
  const ready = info.corpus.state === "ready";
  const near = useAnswer("/api/neighbours", ready && words.length ? { sentence: words.map((one) => one.word), position, k: 12, distinct } : null, 0);
  const layers = near.data ? Object.entries(near.data.layers) : [];
  const rows = () => [["layer", "similarity", "word", "sentence"], ...layers.flatMap(([layer, items]) => items.map((item) => [layer, item.similarity, item.word, item.words.join(" ")]))];
  return html`
    <section class="panel">
      <div class="row"><${TextField} label="Sentence" value=${text} onInput=${(value) => set({ text: value, word: 1 })}/></div>
      ${tokens.error ? html`<${State} error=${tokens.error}/>` : html`
      <div class="words" role="group" aria-label="Words as the model sees them">${words.map((one, i) => html`
        <button type="button" class=${"word" + (one.known || !marks ? "" : " unknown")} aria-pressed=${String(i === position)} onClick=${() => set({ word: i })}
          title=${!marks ? "read by its spelling" : one.known ? `seen ${one.count.toLocaleString("en")} times in training` : "not in the vocabulary"}>${one.word}${marks && !one.known && html`<span class="sr"> (unknown)</span>`}</button>`)}</div>
      ${marks && words.some((one) => !one.known) && html`<p class="context">Dashed underline: not in the vocabulary. The model ${spells ? "reads its spelling." : "sees only that there is a word."}</p>`}`}
    </section>
    <div class="row spread">
      <${Choice} label="Neighbours" value=${distinct} options=${[["word", "each word once"], ["phrase", "each phrase once"], ["none", "all"]]} onChange=${(value) => set({ distinct: value })}/>
      ${near.data && html`<div class="row"><${Copy} name="TSV" text=${() => tsv(rows())}/><${Copy} name="JSON" text=${() => json(near.data)}/></div>`}
    </div>
    ${info.corpus.state === "none" ? html`<${State} error="This server has no corpus to search."/>`
      : near.error ? html`<${State} error=${near.error}/>`
      : info.corpus.state === "failed" ? html`<${State} error=${info.corpus.message}/>`
      : !words.length && !tokens.busy ? html`<${State} hint=${tokens.error ? "" : "Type a sentence to see its words, and their neighbours in the corpus."}/>`
      : !near.data ? html`<${State} busy=${true} text=${ready ? "Searching …" : "The corpus is being indexed; this happens once."}/>` : html`
    <div class="grid3">${layers.map(([layer, items]) => html`
      <section class="panel" key=${layer} aria-busy=${String(near.busy)}><h2>Layer ${layer}${layer === "0" ? ": the word alone" : layer === String(layers.length - 1) ? ": the top" : ""}</h2><${Kwic} items=${items}/></section>`)}</div>`}`;
}
