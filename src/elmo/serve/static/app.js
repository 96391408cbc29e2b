// The frame of the page: navigation, model and theme; which view is shown is in the fragment of the URL.
import { html, render, useEffect, useState } from "./vendor/ui.js";
import { api, useHash, takeToken, Context, State } from "./common.js";

const VIEWS = [
  ["sentence", "Sentence", "A word in its sentence, and the words of the corpus that are nearest to it, layer by layer."],
  ["compare", "Compare", "How similar the words of two sentences are to the model."],
  ["predict", "Predict", "Make any word a blank: what each direction expects there, and both together."],
  ["surprisal", "Surprisal", "How many bits each word carries, read forwards, backwards, or with both sides known."],
  ["classify", "Classify", "The label of a text, and what each word contributes to it."],
  ["map", "Word map", "Every occurrence of a word in the corpus as a point; follow the points through the layers."],
  ["model", "Model", "What is being served, what it knows, and how to call it from programs."],
];

function Theme() {
  const [theme, setTheme] = useState(localStorage.getItem("theme") || "");
  useEffect(() => {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
    localStorage.setItem("theme", theme);
  }, [theme]);
  return html`<label>Theme<select value=${theme} onChange=${(e) => setTheme(e.target.value)}>
    <option value="">as the system</option><option value="light">light</option><option value="dark">dark</option>
  </select></label>`;
}

function App() {
  const [hash, setHash] = useHash();
  const [info, setInfo] = useState(null);
  const [error, setError] = useState("");
  const [loaded, setLoaded] = useState({ name: "", component: null });
  const [missing, setMissing] = useState("");
  const found = VIEWS.find(([name]) => name === hash.view) || VIEWS[0];
  const [name, title, lead] = found;

  useEffect(() => {
    let timer, over = false;
    const ask = () => api("/api/info").then((answer) => {
      if (over) return;
      setInfo(answer); setError("");
      if (["waiting", "building"].includes(answer.corpus.state)) timer = setTimeout(ask, 1000);
    }, (problem) => {
      if (over) return;
      setError(problem.message);
      timer = setTimeout(ask, problem.status === 503 ? 700 : 5000);
    });
    ask();
    return () => { over = true; clearTimeout(timer); };
  }, []);

  useEffect(() => {
    const link = document.querySelector("nav a[aria-current]");
    const list = link && link.closest("ul"); // on narrow screens the views scroll sideways
    if (list) list.scrollLeft = link.offsetLeft - list.offsetLeft - (list.clientWidth - link.clientWidth) / 2;
    document.title = `${title} · elmo explorer`;
    import(`./views/${name}.js`).then((module) => { setMissing(""); setLoaded({ name, component: module.default }); }, () => setMissing(name));
  }, [name]);

  // Modules arrive in any order: show a view only while it is the one that the URL names.
  const View = loaded.name === name ? loaded.component : null;
  const models = info ? info.models : [];
  const model = models.find((one) => one.name === hash.params.model) || models.find((one) => info && one.name === info.default_model);
  const set = (changes) => setHash(name, { ...hash.params, ...changes });
  return html`
    <a class="skip" href="#content" onClick=${(e) => { e.preventDefault(); document.getElementById("content").focus(); }}>Skip to content</a>
    <div class="frame">
      <header class="side">
        <div class="brand"><img src="/static/icon.svg" alt=""/>elmo explorer</div>
        <nav aria-label="Views"><ul>${VIEWS.map(([view, text]) => html`
          <li><a href=${"#/" + view} aria-current=${view === name ? "page" : null}>${text}</a></li>`)}</ul></nav>
        <div class="foot">
          ${models.length > 1 && html`<label>Model<select value=${model.name} onChange=${(e) => set({ model: e.target.value })}>
            ${models.map((one) => html`<option value=${one.name}>${one.name}</option>`)}</select></label>`}
          <${Theme}/>
        </div>
      </header>
      <main id="content" tabindex="-1">
        <div><h1>${title}</h1><p class="lead">${lead}</p></div>
        ${info && model && html`<${Context} info=${info} model=${model} view=${name} layer=${hash.params.layer}/>`}
        ${error && !info && html`<${State} busy=${!/token/i.test(error)} error=${/token/i.test(error) ? error + ". Open the link that the server printed." : ""} text=${error}/>`}
        ${info && model && View ? html`<${View} key=${name + model.name} info=${info} model=${model} params=${hash.params} set=${set}/>`
          : missing === name ? html`<${State} error="This view could not be loaded; is the server still running? Reload the page."/>`
          : !error && html`<${State} busy=${true}/>`}
      </main>
    </div>`;
}

takeToken();
const root = document.getElementById("app");
root.textContent = "";
render(html`<${App}/>`, root);
