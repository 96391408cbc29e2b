import { html, useState } from "../vendor/ui.js";
import { Bars, Choice, Copy, EXAMPLES, State, TextField, json, tsv, useAnswer } from "../common.js";

const COLOURS = { forward: "--forward", backward: "--backward", both: "--both" };
const DEEPEST = 14;

export default function Surprisal({ model, params, set }) {
  const text = params.text ?? EXAMPLES.text;
  const direction = COLOURS[params.direction] ? params.direction : "forward";
  const { data, error, busy } = useAnswer("/api/score", model.predicts && text.trim() ? { texts: [text], alternatives: 5, model: model.name } : null);
  const [at, setAt] = useState(-1);
  if (!model.predicts) return html`<${State} error="This model has no softmax, as official ELMo files have none: it embeds words, but does not predict them."/>`;
  const words = data ? data.texts[0].words : [];
  const hardest = words.reduce((best, word, i) => word[direction] > words[best][direction] ? i : best, 0);
  const chosen = words[at >= 0 && at < words.length ? at : hardest];
  const total = words.reduce((sum, word) => sum + word[direction], 0);
  const wash = (bits) => ({ background: `color-mix(in srgb, var(${COLOURS[direction]}) ${Math.min(44, (44 * bits) / DEEPEST).toFixed(0)}%, transparent)` });
  return html`
    <section class="panel"><div class="row"><${TextField} label="Text" value=${text} onInput=${(value) => { setAt(-1); set({ text: value }); }}/></div></section>
    <section class="panel">
      <div class="row spread">
        <${Choice} label="Direction" value=${direction} options=${[["forward", "→ forward"], ["both", "⇄ both"], ["backward", "← backward"]]} onChange=${(value) => set({ direction: value })}/>
        ${data && html`<div class="row">
          <${Copy} name="TSV" text=${() => tsv([["sentence_id", "token_id", "token", "surprisal"], ...words.map((word, i) => [1, i + 1, word.word, word[direction].toFixed(4)])])}/>
          <${Copy} name="JSON" text=${() => json(data)}/></div>`}
      </div>
      ${error ? html`<${State} error=${error}/>` : !words.length ? html`<${State} busy=${busy} hint="Type a text to see how many bits each of its words carries."/>` : html`
      <p class="context">${total.toFixed(1)} bits in all, ${(total / words.length).toFixed(1)} per word; ${direction === "both" ? "pseudo-perplexity" : "perplexity"} ${(2 ** (total / words.length)).toFixed(1)}. Deeper colour: more surprising.</p>
      <div class="words" role="group" aria-label="Words with their bits">${words.map((word, i) => html`
        <button type="button" class="word heat" style=${wash(word[direction])} aria-pressed=${String(word === chosen)} onFocus=${() => setAt(i)} onMouseEnter=${() => setAt(i)} onClick=${() => setAt(i)}
          >${word.word}<small>${word[direction].toFixed(1)}<span class="sr"> bits</span></small></button>`)}</div>`}
    </section>
    ${chosen && html`<div class="grid2">
      <section class="panel"><h2>Instead of “${chosen.word}”</h2>
        <${Bars} label="Best alternatives" direction=${direction} items=${chosen[`${direction}_best`].map((one) => ({ name: one.word, value: one.probability }))}/></section>
      <section class="panel"><div class="row spread"><h2>Bits of each word</h2><ul class="legend" aria-label="Lines">${Object.keys(COLOURS).map((name) => html`<li class=${name}><i class="line"></i>${name}</li>`)}</ul></div><${Chart} words=${words} at=${words.indexOf(chosen)}/></section></div>`}`;
}

function Chart({ words, at }) {
  const width = 640, height = 220, left = 34, bottom = 24;
  const most = Math.max(4, ...words.flatMap((word) => [word.forward, word.backward, word.both]));
  const x = (i) => left + ((i + 0.5) * (width - left)) / words.length, y = (bits) => (height - bottom) * (1 - bits / most) + 6;
  const ticks = [0, 0.5, 1].map((part) => Math.round(part * most));
  return html`<svg class="chart" viewBox=${`0 0 ${width} ${height}`} role="img" aria-label="Line chart of bits per word">
    ${ticks.map((bits) => html`<g><line x1=${left} x2=${width} y1=${y(bits)} y2=${y(bits)} stroke="var(--line)"/><text x=${left - 6} y=${y(bits) + 4} text-anchor="end" font-size="11" fill="var(--soft)">${bits}</text></g>`)}
    ${at >= 0 && html`<line x1=${x(at)} x2=${x(at)} y1="0" y2=${height - bottom} stroke="var(--soft)" stroke-dasharray="3 3"/>`}
    ${Object.entries(COLOURS).map(([name, colour]) => html`<g key=${name}>
      <polyline fill="none" stroke=${`var(${colour})`} stroke-width="2" points=${words.map((word, i) => `${x(i)},${y(Math.max(0, word[name]))}`).join(" ")}/>
      ${words.map((word, i) => html`<circle cx=${x(i)} cy=${y(Math.max(0, word[name]))} r=${i === at ? 5 : 3} fill=${`var(${colour})`}/>`)}</g>`)}
    ${words.length <= 24 && words.map((word, i) => html`<text x=${x(i)} y=${height - 6} text-anchor="middle" font-size="11" fill="var(--soft)">${word.word.length > 9 ? word.word.slice(0, 8) + "…" : word.word}</text>`)}
  </svg>`;
}
