import { html, useState } from "../vendor/ui.js";
import { Choice, Copy, State, useAnswer } from "../common.js";

export default function Model({ info, model, params, set }) {
  const [how, setHow] = useState("openai");
  const asked = params.lookup ?? "bank Bank blockchain";
  const { data, error } = useAnswer("/api/tokenize", asked.trim() ? { text: asked, model: model.name } : null);
  const number = (value) => value.toLocaleString("en");
  const perplexity = model.held_out_perplexity;
  const calls = {
    curl: `curl ${location.origin}/v1/embeddings \\\n  -H "Content-Type: application/json" \\\n  -d '{"model": "${model.name}", "input": "Oil prices fell ."}'`,
    openai: `from openai import OpenAI\n\nclient = OpenAI(base_url="${location.origin}/v1", api_key="none")\nanswer = client.embeddings.create(model="${model.name}", input=["Oil prices fell ."])\nprint(len(answer.data[0].embedding))  # ${model.dim}`,
    python: `from elmo import Embedder  # the same vectors without a server\n\nembedder = Embedder.from_pretrained()\nprint(embedder.encode("Oil prices fell .").shape)  # (${model.dim},)`,
  };
  const facts = [
    ["input", { words: "words", characters: "characters of words", both: "words and their characters" }[model.input] || model.input], ["layers", `${model.layers} per direction, ${model.cells} cells`], ["vector", `${model.dim} numbers`],
    ["parameters", number(model.parameters)], ["vocabulary", `${number(model.vocabulary)} words`], ["tokenizer", model.tokenizer],
    ["training text", model.training_tokens ? `${number(model.training_tokens)} words, ${(100 * model.unknown_rate).toFixed(1)}% unknown` : "not recorded"],
    ["held-out perplexity", perplexity ? `forward ${perplexity.forward.toFixed(1)}, backward ${perplexity.backward.toFixed(1)}` : "not recorded"],
    ["corpus of the page", info.corpus.state === "ready" ? `${info.corpus.name}: ${number(info.corpus.texts)} texts, ${number(info.corpus.words)} words` : info.corpus.state],
    ["limits", `${number(info.limits.texts)} texts, ${number(info.limits.words)} words per request; ${number(info.limits.words_per_text)} words per text; ${info.limits.seconds} s`],
    ["version", info.version],
  ];
  return html`
    <div class="grid2">
      <section class="panel"><h2>${model.name}</h2><table class="facts"><tbody>${facts.map(([name, value]) => html`<tr><th scope="row">${name}</th><td>${value}</td></tr>`)}</tbody></table></section>
      <section class="panel"><h2>Look up words</h2>
        <label>Words<input type="text" value=${asked} maxlength="2000" onInput=${(e) => set({ lookup: e.target.value })}/></label>
        ${error ? html`<${State} error=${error}/>` : html`<div class="scroll" tabindex="0" role="region" aria-label="Words in the vocabulary"><table class="facts"><thead><tr><th scope="col">word</th><th scope="col">rank</th><th scope="col">seen in training</th></tr></thead><tbody>
          ${(data ? data.words : []).map((one) => html`<tr><td>${one.word}</td><td>${one.known ? number(one.rank) : "unknown"}</td><td>${one.known ? number(one.count) : "–"}</td></tr>`)}</tbody></table></div>`}
      </section>
    </div>
    <section class="panel"><div class="row spread"><${Choice} label="Call this server" value=${how} options=${[["openai", "OpenAI client"], ["curl", "curl"], ["python", "Python"]]} onChange=${setHow}/><${Copy} name="text" text=${() => calls[how]}/></div>
      <pre tabindex="0">${calls[how]}</pre>
      <p class="context">All routes: <a href="/openapi.json">openapi.json</a> · counters: <a href="/metrics">metrics</a></p></section>
    ${model.card && html`<section class="panel"><h2>Model card</h2><div class="card" tabindex="0" role="region" aria-label="Model card"><${Markdown} text=${model.card}/></div></section>`}`;
}

// What model cards use of Markdown, as elements: its text stays text. The YAML head is for model hubs.
function Markdown({ text }) {
  const lines = text.replace(/^---\n[^]*?\n---\n/, "").split("\n"), blocks = [];
  for (let i = 0; i < lines.length;) {
    const start = i, run = (pattern) => { while (i < lines.length && pattern.test(lines[i])) i += 1; return lines.slice(start, i); };
    if (/^```/.test(lines[i])) {
      i += 1;
      while (i < lines.length && !/^```/.test(lines[i])) i += 1;
      blocks.push(html`<pre tabindex="0">${lines.slice(start + 1, i).join("\n")}</pre>`);
      i += 1;
    } else if (/^#/.test(lines[i])) { blocks.push(html`<h3>${lines[i].replace(/^#+\s*/, "")}</h3>`); i += 1; }
    else if (/^\|/.test(lines[i])) {
      const [head, , ...rows] = run(/^\|/).map((line) => line.replace(/^\||\|\s*$/g, "").split("|").map((cell) => cell.trim()));
      blocks.push(html`<table><thead><tr>${head.map((cell) => html`<th scope="col">${inline(cell)}</th>`)}</tr></thead><tbody>${rows.map((row) => html`<tr>${row.map((cell) => html`<td>${inline(cell)}</td>`)}</tr>`)}</tbody></table>`);
    } else if (/^[-*] /.test(lines[i])) {
      const items = run(/^([-*] |\s+\S)/).reduce((all, line) => /^[-*] /.test(line) ? [...all, line.slice(2)] : [...all.slice(0, -1), `${all[all.length - 1]} ${line.trim()}`], []);
      blocks.push(html`<ul>${items.map((item) => html`<li>${inline(item)}</li>`)}</ul>`);
    } else if (lines[i].trim()) blocks.push(html`<p>${inline(run(/^(?!#|\||```|[-*] )\s*\S/).join(" "))}</p>`);
    if (i === start) i += 1;
  }
  return blocks;
}

function inline(text) {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*|\[[^\]]+\]\([^)\s]+\))/).map((part) => {
    const link = /^\[([^\]]+)\]\(([^)\s]+)\)$/.exec(part);
    if (link) return /^https:/.test(link[2]) ? html`<a href=${link[2]} rel="noreferrer">${link[1]}</a>` : link[1];
    if (/^`.+`$/.test(part)) return html`<code>${part.slice(1, -1)}</code>`;
    return /^\*\*.+\*\*$/.test(part) ? html`<b>${part.slice(2, -2)}</b>` : part;
  });
}
