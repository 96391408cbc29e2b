import { html } from "../vendor/ui.js";
import { Bars, Copy, EXAMPLES, State, TextField, json, tsv, useAnswer } from "../common.js";

const DIRECTIONS = [["forward", "Forward", "→", "given the words before"], ["both", "Both", "⇄", "given both sides"], ["backward", "Backward", "←", "given the words after"]];

export default function Predict({ model, params, set }) {
  const text = params.text ?? EXAMPLES.text;
  const tokens = useAnswer("/api/tokenize", text.trim() ? { text, model: model.name } : null);
  const words = tokens.data ? tokens.data.words.map((one) => one.word) : [];
  const at = params.blank === undefined ? Math.min(2, words.length) : Math.max(-1, Math.min(+params.blank, words.length));
  // -1 is the place before the first word, the number of words that after the last one.
  const asked = at < 0 ? ["___", ...words] : at >= words.length ? [...words, "___"] : words.map((word, i) => i === at ? "___" : word);
  const { data, error, busy } = useAnswer("/api/predict", model.predicts && words.length ? { text: asked, k: 10, model: model.name } : null, 0);
  const insert = (word) => {
    const filled = at < 0 ? [word, ...words] : at >= words.length ? [...words, word] : words.map((old, i) => i === at ? word : old);
    set({ text: filled.join(" "), blank: at < 0 ? -1 : at >= words.length ? words.length + 1 : at });
  };
  if (!model.predicts) return html`<${State} error="This model has no softmax, as official ELMo files have none: it embeds words, but does not predict them."/>`;
  const blank = data && data.blanks[0];
  return html`
    <section class="panel">
      <div class="row"><${TextField} label="Text" value=${text} onInput=${(value) => set({ text: value })}/></div>
      ${tokens.error ? html`<${State} error=${tokens.error}/>` : html`<div class="words" role="group" aria-label="Choose the blank">
        <button type="button" class=${"word " + (at < 0 ? "blank" : "ghost")} aria-pressed=${String(at < 0)} onClick=${() => set({ blank: -1 })}>${at < 0 ? "___" : "before"}</button>
        ${words.map((word, i) => html`<button type="button" class=${"word" + (i === at ? " blank" : "")} aria-pressed=${String(i === at)} onClick=${() => set({ blank: i })} title=${i === at ? `was: ${word}` : "make this a blank"}>${i === at ? "___" : word}</button>`)}
        <button type="button" class=${"word " + (at >= words.length ? "blank" : "ghost")} aria-pressed=${String(at >= words.length)} onClick=${() => set({ blank: words.length })}>${at >= words.length ? "___" : "after"}</button>
      </div>
      <p class="context">Click a word to make it the blank, then a candidate to put it there.${at >= 0 && at < words.length ? ` It was: ${words[at]}.` : ""}</p>`}
    </section>
    ${error ? html`<${State} error=${error}/>` : !blank ? html`<${State} busy=${busy || tokens.busy} hint="Type a text; any of its words can become a blank."/>` : html`
    <div class="row end"><${Copy} name="TSV" text=${() => tsv([["direction", "word", "probability"], ...DIRECTIONS.flatMap(([name]) => blank[name].map((one) => [name, one.word, one.probability]))])}/><${Copy} name="JSON" text=${() => json(data)}/></div>
    <div class="grid3">${DIRECTIONS.map(([name, title, arrow, note]) => html`<section class="panel" key=${name} aria-busy=${String(busy)}>
      <h2 class=${name}><span class="arrow" aria-hidden="true">${arrow}</span> ${title} <small>${note}</small></h2>
      <${Bars} label=${`${title}: candidates`} direction=${name} items=${blank[name].map((one) => ({ name: one.word, value: one.probability }))} onPick=${insert}/></section>`)}</div>`}`;
}
