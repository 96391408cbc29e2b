import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/ui.js";
import { Choice, Copy, LayerSlider, State, api, json, percent, save, tsv, useAnswer } from "../common.js";

// Okabe and Ito's colours, told apart with any colour vision; readable on light and dark.
const PALETTE = ["#0f7fc4", "#e06c00", "#0a9a72", "#c0569a", "#8a7a00", "#8d5ad6", "#d14343", "#4d8f9e", "#7c7f86", "#a8672f"];
const MOVE = 700;
const FEWEST = 20;

export default function WordMap({ info, model, params, set }) {
  const corpus = info.corpus, ready = corpus.state === "ready";
  const suggestions = corpus.ambiguous.length ? corpus.ambiguous.map(([word]) => word) : corpus.frequent.map(([word]) => word);
  const word = params.word ?? (suggestions.includes("bank") ? "bank" : suggestions[0] || "");
  const [typed, setTyped] = useState(word);
  useEffect(() => setTyped(word), [word]);
  const { data, error, busy } = useAnswer("/api/occurrences", ready && word.trim() ? { word: word.trim(), limit: 5000 } : null, 0);
  const layers = data ? data.layers : [String(model.layers)];
  const layer = layers.includes(params.layer) ? params.layer : layers.includes(String(model.layers)) ? String(model.layers) : layers[layers.length - 1];
  const has = (name) => !!data && data.occurrences.some((item) => item[name]);
  const kinds = [["sense", "known sense"], ["label", "label"]].filter(([name]) => has(name)).concat([["cluster", "cluster"]]);
  const colour = kinds.some(([name]) => name === params.colour) ? params.colour : kinds[0][0];
  const groups = useMemo(() => !data ? [] : data.occurrences.map((item, i) => colour === "cluster" ? `cluster ${data.clusters[i] + 1}` : item[colour] || "none"), [data, colour]);
  const names = useMemo(() => [...new Set(groups)].sort(), [groups]);
  const paint = (i) => PALETTE[names.indexOf(groups[i]) % PALETTE.length];
  // What was selected belongs to one answer: the next word may have fewer points.
  const [selection, setSelection] = useState({ data: null, points: null });
  const picked = selection.data === data ? selection.points : null;
  const setPicked = (points) => setSelection({ data, points });
  const [umap, setUmap] = useState({ key: "", points: null, progress: 0 });
  // While another word is being asked for, the answer shown is that of the word before.
  const shown = data ? data.word : word;
  const umapKey = `${shown} ${layer}`;
  const useUmap = params.umap === "1";
  const enough = !!data && data.occurrences.length > FEWEST;
  useUmapPoints(useUmap && enough && layer !== "average" ? umapKey : "", layer, data, umap, setUmap);
  const progress = layer === "average" ? "UMAP shows single layers. " : !enough ? `UMAP needs more than ${FEWEST} points. ` : umap.error ? `UMAP failed: ${umap.error} ` : umap.key !== umapKey ? `UMAP: ${percent(umap.progress)} … ` : "";
  const points = useUmap && umap.key === umapKey && umap.points ? umap.points : data ? data.points[layer] : [];
  const chosen = picked || [];
  const list = (picked ? chosen : data ? data.occurrences.map((_, i) => i) : []).slice(0, 200);
  const svg = () => drawing(points, paint, names, `${shown}, layer ${layer}, ${corpus.name}`);
  const file = `elmo-${shown.replace(/\W+/g, "_")}-layer-${layer}`;

  if (corpus.state === "none") return html`<${State} error="This server has no corpus."/>`;
  if (corpus.state === "failed") return html`<${State} error=${corpus.message}/>`;
  return html`
    <section class="panel">
      <div class="row">
        <label class="grow">Word<input type="text" value=${typed} list="words" maxlength="100" onInput=${(e) => setTyped(e.target.value)} onChange=${(e) => set({ word: e.target.value })} onKeyDown=${(e) => { if (e.key === "Enter") set({ word: e.target.value }); }}/></label>
        <datalist id="words">${corpus.frequent.map(([name]) => html`<option value=${name}></option>`)}</datalist>
        <${LayerSlider} layers=${layers} value=${layer} onChange=${(value) => set({ layer: value })}/>
        <${Choice} label="Colour by" value=${colour} options=${kinds} onChange=${(value) => set({ colour: value })}/>
        <${Choice} label="Projection" value=${useUmap ? "umap" : "pca"} options=${[["pca", "PCA"], ["umap", "UMAP"]]} onChange=${(value) => set({ umap: value === "umap" ? "1" : undefined })}/>
      </div>
      <div class="chips" role="group" aria-label=${corpus.ambiguous.length ? "Words with several known senses" : "Frequent words"}>${suggestions.slice(0, 16).map((name) => html`<button type="button" class="chip" aria-pressed=${String(name === word)} onClick=${() => set({ word: name })}>${name}</button>`)}</div>
    </section>
    ${error ? html`<${State} error=${error}/>` : ready && !word.trim() ? html`<${State} hint="Type a word of the corpus, or choose one above."/>`
      : !data ? html`<${State} busy=${true} text=${ready ? "Projecting …" : "The corpus is being indexed; this happens once."}/>` : html`
    <div class="mapgrid">
      <section class="panel" aria-busy=${String(busy)}>
        <${Canvas} points=${points} paint=${paint} colours=${groups} items=${data.occurrences} groups=${groups} picked=${picked} onPick=${setPicked} label=${`Map of ${data.occurrences.length} occurrences of ${shown}`}/>
        <div class="row spread">
          <ul class="legend" aria-label="Colours">${names.map((name, i) => html`<li><i style=${{ background: PALETTE[i % PALETTE.length] }}></i>${name} <small>${groups.filter((one) => one === name).length}</small></li>`)}</ul>
          <div class="row"><button type="button" class="button" onClick=${() => savePng(svg(), file)}>PNG</button><button type="button" class="button" onClick=${() => save(new Blob([svg()], { type: "image/svg+xml" }), `${file}.svg`)}>SVG</button></div>
        </div>
        <p class="context">${useUmap ? progress : ""}${data.total > data.occurrences.length ? `A sample of ${data.occurrences.length.toLocaleString("en")} of ${data.total.toLocaleString("en")}. ` : ""}${layer === "0" ? "Layer 0 does not see the sentence: all occurrences of one spelling are one point. " : useUmap ? "" : `The plane shows ${percent(data.explained[layer])} of the variance. `}Drag to move, scroll to zoom, hold Shift and drag to select; arrow keys walk through the points.</p>
      </section>
      <div class="side-list">
        ${Object.keys(data.agreement).length > 0 && html`<section class="panel"><h2>Nearest neighbour has the same ${has("sense") ? "sense" : "label"}</h2>
          <div class="layers">${Object.entries(data.agreement).map(([name, value]) => html`<div>layer ${name}<b>${percent(value)}</b></div>`)}<div>chance<b>${percent(data.chance)}</b></div></div></section>`}
        <section class="panel">
          <div class="row spread"><h2>${picked ? `${chosen.length} selected` : `${data.occurrences.length} occurrences`}</h2>
            <div class="row">${picked && html`<button type="button" class="button" onClick=${() => setPicked(null)}>Clear</button>`}
            <${Copy} name="TSV" text=${() => tsv([["word", "sense", "label", "cluster", "x", "y", "sentence"], ...(picked || data.occurrences.map((_, i) => i)).map((i) => [data.occurrences[i].word, data.occurrences[i].sense ?? "", data.occurrences[i].label ?? "", data.clusters[i] + 1, points[i][0], points[i][1], data.occurrences[i].words.join(" ")])])}/>
            <${Copy} name="JSON" text=${() => json(data)}/></div></div>
          <div class="list" tabindex="0" role="region" aria-label="Sentences"><ol>${list.map((i) => html`<li key=${i} style=${{ borderColor: paint(i) }}><${Quote} item=${data.occurrences[i]}/></li>`)}</ol></div>
        </section>
      </div>
    </div>`}`;
}

function Quote({ item }) {
  return html`${item.words.slice(0, item.position).join(" ")} <b>${item.words[item.position]}</b> ${item.words.slice(item.position + 1).join(" ")}`;
}

function useUmapPoints(key, layer, data, umap, setUmap) {
  useEffect(() => {
    if (!key || umap.key === key) return undefined;
    let worker;
    const controller = new AbortController();
    const fail = (error) => { if (!controller.signal.aborted) setUmap({ key: "", points: null, progress: 0, error: error.message || "the browser stopped it." }); };
    setUmap({ key: "", points: null, progress: 0 });
    api("/api/occurrences", { word: data.word, limit: 5000, components: 16 }, controller.signal).then((answer) => {
      if (controller.signal.aborted) return;
      const vectors = answer.components[layer];
      worker = new Worker(new URL("../umap-worker.js", import.meta.url), { type: "module" });
      worker.onmessage = ({ data: message }) => {
        if (message.result) { setUmap({ key, points: aligned(unit(message.result), data.points[layer]), progress: 1 }); worker.terminate(); }
        else setUmap((old) => ({ ...old, progress: message.progress }));
      };
      worker.onerror = fail;
      worker.postMessage({ points: vectors });
    }).catch(fail);
    return () => { controller.abort(); if (worker) worker.terminate(); };
  }, [key]);
}

// Mean 0 and mean squared distance 1, as the server's planes have.
function unit(points) {
  const mean = [0, 1].map((k) => points.reduce((sum, p) => sum + p[k], 0) / points.length);
  const moved = points.map((p) => [p[0] - mean[0], p[1] - mean[1]]);
  const size = Math.sqrt(moved.reduce((sum, p) => sum + p[0] ** 2 + p[1] ** 2, 0) / moved.length) || 1;
  return moved.map((p) => [p[0] / size, p[1] / size]);
}

// The rotation, with or without reflection, that brings points nearest to others (Procrustes in the plane).
function aligned(points, reference) {
  const best = [1, -1].map((sign) => {
    let a = 0, b = 0;
    points.forEach((p, i) => { const x = p[0], y = sign * p[1], [u, v] = reference[i]; a += x * u + y * v; b += x * v - y * u; });
    return { sign, angle: Math.atan2(b, a), fit: Math.hypot(a, b) };
  }).sort((one, two) => two.fit - one.fit)[0];
  const c = Math.cos(best.angle), s = Math.sin(best.angle);
  return points.map(([x, y]) => [c * x - s * best.sign * y, s * x + c * best.sign * y]);
}

function extent(points) {
  let most = 1e-6;
  for (const [x, y] of points) most = Math.max(most, Math.abs(x), Math.abs(y));
  return most * 1.08;
}

function Canvas({ points, paint, colours, items, groups, picked, onPick, label }) {
  const canvas = useRef(null), live = useRef({ transform: null, now: [], hover: -1 });
  const [tip, setTip] = useState(null);
  const [d3, setD3] = useState(null);
  const [lasso, setLasso] = useState(null);
  useEffect(() => { import("../vendor/d3.js").then(setD3); }, []);

  const place = (p) => {
    const { width, height } = live.current, scale = (Math.min(width, height) / 2) / live.current.most, t = live.current.transform;
    const x = width / 2 + p[0] * scale, y = height / 2 - p[1] * scale;
    return t ? [t.applyX(x), t.applyY(y)] : [x, y];
  };
  const draw = () => {
    const node = canvas.current;
    if (!node) return;
    const ratio = devicePixelRatio || 1, box = node.getBoundingClientRect();
    Object.assign(live.current, { width: box.width, height: box.height });
    if (node.width !== Math.round(box.width * ratio)) { node.width = Math.round(box.width * ratio); node.height = Math.round(box.height * ratio); }
    const pen = node.getContext("2d"), style = getComputedStyle(node);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, box.width, box.height);
    const chosen = picked && new Set(picked), size = items.length > 1500 ? 3 : items.length > 300 ? 4.2 : 5.6;
    live.current.now.forEach((p, i) => {
      const [x, y] = place(p);
      pen.globalAlpha = chosen && !chosen.has(i) ? 0.13 : 0.72;
      pen.fillStyle = paint(i);
      pen.beginPath(); pen.arc(x, y, size, 0, 7); pen.fill();
    });
    pen.globalAlpha = 1;
    const hover = live.current.hover;
    if (hover >= 0 && live.current.now[hover]) {
      const [x, y] = place(live.current.now[hover]);
      pen.lineWidth = 2.5; pen.strokeStyle = style.color; pen.fillStyle = paint(hover);
      pen.beginPath(); pen.arc(x, y, size + 3, 0, 7); pen.fill(); pen.stroke();
    }
    const line = live.current.line;
    if (line && line.length > 1) {
      pen.strokeStyle = style.color; pen.lineWidth = 1.5; pen.setLineDash([5, 4]);
      pen.beginPath(); line.forEach(([x, y], i) => i ? pen.lineTo(x, y) : pen.moveTo(x, y)); pen.closePath(); pen.stroke(); pen.setLineDash([]);
    }
  };

  // The same points move from layer to layer.
  useLayoutEffect(() => {
    const from = live.current.now.length === points.length ? live.current.now : points;
    const start = performance.now(), before = live.current.most || extent(points), after = extent(points);
    const still = from === points || matchMedia("(prefers-reduced-motion: reduce)").matches;
    let frame;
    const step = (time) => {
      const t = still ? 1 : Math.min(1, Math.max(0, (time - start) / MOVE)), e = t < 0.5 ? 4 * t ** 3 : 1 - (2 - 2 * t) ** 3 / 2;
      live.current.now = t === 1 ? points : points.map((p, i) => [from[i][0] + (p[0] - from[i][0]) * e, from[i][1] + (p[1] - from[i][1]) * e]);
      live.current.most = before + (after - before) * e;
      draw();
      if (t < 1) frame = requestAnimationFrame(step);
    };
    step(start);
    return () => cancelAnimationFrame(frame);
  }, [points]);
  useEffect(() => show(-1), [items]); // another word: the point under the pointer was the old one's
  useLayoutEffect(draw, [picked, colours, tip]);
  useEffect(() => {
    const watch = new ResizeObserver(draw);
    watch.observe(canvas.current);
    const theme = new MutationObserver(draw);
    theme.observe(document.documentElement, { attributes: true });
    return () => { watch.disconnect(); theme.disconnect(); };
  }, [picked, colours]);

  useEffect(() => {
    if (!d3) return undefined;
    const behaviour = d3.zoom().scaleExtent([0.5, 40]).filter((event) => !event.shiftKey && !event.button).on("zoom", ({ transform }) => { live.current.transform = transform; draw(); });
    const selection = d3.select(canvas.current).call(behaviour).on("dblclick.zoom", null);
    live.current.reset = () => selection.call(behaviour.transform, d3.zoomIdentity);
    live.current.by = (factor) => selection.call(behaviour.scaleBy, factor);
    return () => selection.on(".zoom", null);
  }, [d3, picked, colours]);

  const show = (i) => {
    live.current.hover = i;
    if (i < 0) { setTip(null); return; }
    const [x, y] = place(live.current.now[i]);
    setTip({ i, x: Math.min(Math.max(8, x + 12), Math.max(8, live.current.width - 240)), y: Math.min(y + 12, live.current.height - 90) });
  };
  const at = (event) => {
    const box = canvas.current.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const move = (event) => {
    const [x, y] = at(event);
    if (live.current.line) { live.current.line.push([x, y]); draw(); return; }
    if (!d3 || event.buttons || !live.current.now.length) return;
    const places = live.current.now.map(place), i = d3.Delaunay.from(places).find(x, y);
    show(Math.hypot(places[i][0] - x, places[i][1] - y) < 24 ? i : -1);
  };
  const down = (event) => { if (event.shiftKey || lasso) { live.current.line = [at(event)]; canvas.current.setPointerCapture(event.pointerId); event.stopPropagation(); } };
  const up = () => {
    const line = live.current.line;
    live.current.line = null;
    if (line && line.length > 3) onPick(live.current.now.map((p, i) => [place(p), i]).filter(([p]) => inside(p, line)).map(([, i]) => i));
    draw();
  };
  const key = (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step) { show((live.current.hover + step + items.length) % items.length); event.preventDefault(); }
    else if (event.key === "+" || event.key === "=") live.current.by?.(1.4);
    else if (event.key === "-") live.current.by?.(1 / 1.4);
    else if (event.key === "0") live.current.reset?.();
    else if (event.key === "Enter" && live.current.hover >= 0) onPick([live.current.hover]);
    else if (event.key === "Escape") { show(-1); onPick(null); }
  };
  return html`<div class="row spread" style=${{ marginBottom: ".5rem" }}><h2>${items.length.toLocaleString("en")} points</h2>
      <div class="row"><button type="button" class="button" aria-pressed=${String(!!lasso)} onClick=${() => setLasso(!lasso)}>Lasso</button><button type="button" class="button" onClick=${() => live.current.by?.(1.4)} aria-label="Zoom in">+</button><button type="button" class="button" onClick=${() => live.current.by?.(1 / 1.4)} aria-label="Zoom out">−</button><button type="button" class="button" onClick=${() => live.current.reset?.()}>Reset</button></div></div>
    <div class="map"><canvas ref=${canvas} class=${lasso ? "lasso" : ""} tabindex="0" role="application" aria-label=${label + "; arrow keys walk through them, plus and minus zoom, Enter selects, Escape clears"}
      onPointerMove=${move} onPointerDownCapture=${down} onPointerUp=${up} onPointerLeave=${() => { if (!live.current.line) show(-1); }} onKeyDown=${key} onMouseDownCapture=${(e) => { if (lasso) e.stopImmediatePropagation(); }}></canvas>
      ${tip && items[tip.i] && html`<div class="tip" role="status" style=${{ left: `${tip.x}px`, top: `${tip.y}px` }}><${Quote} item=${items[tip.i]}/><small>${groups[tip.i]}</small></div>`}</div>`;
}

function inside([x, y], line) {
  let odd = false;
  for (let i = 0, j = line.length - 1; i < line.length; j = i, i += 1) {
    const [xi, yi] = line[i], [xj, yj] = line[j];
    if ((yi > y) !== (yj > y) && x < ((xj - xi) * (y - yi)) / (yj - yi) + xi) odd = !odd;
  }
  return odd;
}

// Export: the map as SVG, with its legend; as PNG by drawing that.
const escape = (text) => String(text).replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);

function drawing(points, paint, names, title) {
  const size = 900, most = extent(points), scale = size / 2 / most;
  const circles = points.map(([x, y], i) => `<circle cx="${(size / 2 + x * scale).toFixed(1)}" cy="${(size / 2 - y * scale + 40).toFixed(1)}" r="5" fill="${paint(i)}" fill-opacity=".7"/>`).join("");
  const legend = names.map((name, i) => `<circle cx="24" cy="${size + 66 + 24 * i}" r="6" fill="${PALETTE[i % PALETTE.length]}"/><text x="38" y="${size + 71 + 24 * i}">${escape(name)}</text>`).join("");
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${size} ${size + 80 + 24 * names.length}" width="${size}" height="${size + 80 + 24 * names.length}" font-family="sans-serif" font-size="15"><rect width="100%" height="100%" fill="#fff"/><text x="20" y="28" font-size="18" font-weight="600">${escape(title)}</text>${circles}${legend}</svg>`;
}

function savePng(svg, name) {
  const image = new Image();
  image.onload = () => {
    const canvas = document.createElement("canvas");
    canvas.width = 2 * image.width; canvas.height = 2 * image.height;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => save(blob, `${name}.png`));
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
}
