// UMAP of one layer, away from the page's own thread.
import { UMAP } from "./vendor/umap.js";

// A small generator with a seed, so that the same points give the same map.
function seeded(state) {
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

onmessage = ({ data }) => {
  const neighbours = Math.min(15, data.points.length - 1);
  const umap = new UMAP({ nComponents: 2, nNeighbors: neighbours, minDist: 0.15, random: seeded(7) });
  const epochs = umap.initializeFit(data.points);
  for (let epoch = 0; epoch < epochs; epoch += 1) {
    umap.step();
    if (epoch % 20 === 0) postMessage({ progress: epoch / epochs });
  }
  postMessage({ result: umap.getEmbedding() });
};
