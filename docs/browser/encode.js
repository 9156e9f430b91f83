// Embeddings to semantic IDs with onnxruntime-web, which lies beside this file in ort/.
import * as ort from "./ort/ort.wasm.min.mjs";

const AT_ONCE = 2048; // rows; a level with a codebook per parent takes much memory a row
const SHOWN = 50;
const encoder = document.getElementById("encoder");
const embeddings = document.getElementById("embeddings");
const state = document.getElementById("state");

ort.env.wasm.wasmPaths = new URL("./ort/", import.meta.url).href;
ort.env.wasm.numThreads = 1; // more need headers that a plain file server does not send

/** The rows of a .npy file: { data: Float32Array, n, d }. */
export function readNpy(buffer) {
  const bytes = new Uint8Array(buffer);
  const magic = String.fromCharCode(...bytes.subarray(1, 6));
  if (bytes[0] !== 0x93 || magic !== "NUMPY") throw new Error("the embeddings are no .npy file");
  const view = new DataView(buffer);
  const [length, start] = bytes[6] === 1 ? [view.getUint16(8, true), 10] : [view.getUint32(8, true), 12];
  const header = new TextDecoder("latin1").decode(bytes.subarray(start, start + length));
  const shape = header.match(/'shape': \((\d+), (\d+),?\)/);
  if (!header.includes("'<f4'") || !header.includes("'fortran_order': False") || !shape) {
    throw new Error("the embeddings must be float32 of shape (n, d), stored by rows");
  }
  const [n, d] = [Number(shape[1]), Number(shape[2])];
  if (buffer.byteLength - start - length !== 4 * n * d) throw new Error("the .npy file is not complete");
  const data = new Float32Array(buffer.slice(start + length));
  for (let row = 0; row < n; row++) {
    const part = data.subarray(row * d, (row + 1) * d);
    if (!part.every(Number.isFinite) || part.every((value) => value === 0)) {
      throw new Error(`row ${row} has NaN, infinity or only zeros, which sidkit refuses`);
    }
  }
  return { data, n, d };
}

/** <a_12><b_3><c_77> */
export function sidOf(codes) {
  return codes.map((code, level) => `<${String.fromCharCode(97 + level)}_${code}>`).join("");
}

async function encode(model, rows) {
  const session = await ort.InferenceSession.create(new Uint8Array(model), { executionProviders: ["wasm"] });
  const sids = [];
  for (let start = 0; start < rows.n; start += AT_ONCE) {
    const n = Math.min(AT_ONCE, rows.n - start);
    const part = rows.data.subarray(start * rows.d, (start + n) * rows.d);
    const { codes } = await session.run({ x: new ort.Tensor("float32", part, [n, rows.d]) });
    const levels = codes.dims[1];
    for (let row = 0; row < n; row++) sids.push(Array.from(codes.data.slice(row * levels, (row + 1) * levels)));
    state.textContent = `${start + n} of ${rows.n} rows`;
  }
  return sids;
}

function show(sids) {
  const table = document.getElementById("sids");
  table.replaceChildren();
  sids.slice(0, SHOWN).forEach((codes, row) => {
    const line = table.insertRow();
    line.insertCell().textContent = row;
    line.insertCell().textContent = sidOf(codes);
  });
  const lines = sids.map((codes, row) => `${row},${sidOf(codes)},${codes.join(",")}`);
  const link = document.getElementById("download");
  link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
  link.download = "sids.csv";
  link.hidden = false;
}

async function work() {
  if (!encoder.files.length || !embeddings.files.length) return;
  state.className = "";
  try {
    const rows = readNpy(await embeddings.files[0].arrayBuffer());
    const sids = await encode(await encoder.files[0].arrayBuffer(), rows);
    show(sids);
    state.textContent = `${sids.length} rows encoded`;
  } catch (error) {
    state.className = "error";
    state.textContent = error.message;
  }
}

encoder.addEventListener("change", work);
embeddings.addEventListener("change", work);
