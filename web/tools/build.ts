// Bundles `src` into the folder that the server serves: index.html, and assets with content-hashed names,
// each beside its gzip and brotli forms. Fails if a first load is larger than MAX_FIRST_LOAD_BYTES.

import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";
import { build, type Metafile } from "esbuild";
import { indexHtml } from "./index-html.ts";

const WEB = dirname(dirname(fileURLToPath(import.meta.url)));
const BUNDLE = join(WEB, "../src/antiphon/server/page/bundle");
const ASSETS = join(BUNDLE, "assets");
/** Of the gzip form, which every browser accepts: the document, its style sheet and the scripts it starts with. */
const MAX_FIRST_LOAD_BYTES = 200_000;

interface Compressed {
  readonly name: string;
  readonly gzipBytes: number;
}

async function writeCompressed(path: string, body: Uint8Array): Promise<Compressed> {
  const [zipped, brotli] = await Promise.all([
    promisify(gzip)(body, { level: 9 }),
    promisify(brotliCompress)(body, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }),
  ]);
  await Promise.all([
    writeFile(path, body),
    writeFile(`${path}.gz`, zipped),
    writeFile(`${path}.br`, brotli),
  ]);
  return { name: basename(path), gzipBytes: zipped.byteLength };
}

/** The names of the script and of every chunk that it imports statically. */
function startingChunks(outputs: Metafile["outputs"], entry: string): Set<string> {
  const found = new Set<string>();
  const waiting = [entry];
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    if (found.has(path)) continue;
    found.add(path);
    for (const imported of outputs[path]?.imports ?? []) {
      if (imported.kind === "import-statement") waiting.push(imported.path);
    }
  }
  return found;
}

async function main(): Promise<void> {
  await rm(BUNDLE, { recursive: true, force: true });
  await mkdir(ASSETS, { recursive: true });
  const result = await build({
    absWorkingDir: WEB,
    entryPoints: { main: "src/main.tsx" },
    outdir: ASSETS,
    entryNames: "[name]-[hash]",
    chunkNames: "[name]-[hash]",
    assetNames: "[name]-[hash]",
    bundle: true,
    splitting: true,
    format: "esm",
    target: "es2022",
    minify: true,
    metafile: true,
    write: false,
    jsx: "automatic",
    jsxImportSource: "preact",
    legalComments: "none",
    logLevel: "warning",
  });
  const { outputs } = result.metafile;
  const entry = Object.entries(outputs).find(([, output]) => output.entryPoint === "src/main.tsx");
  if (entry === undefined) throw new Error("esbuild wrote no entry for src/main.tsx.");
  const [script, { cssBundle }] = entry;
  if (cssBundle === undefined) throw new Error("src/main.tsx imports no style sheet.");
  const first = new Set([...startingChunks(outputs, script), cssBundle].map((path) => basename(path)));
  const document = indexHtml(
    basename(script),
    basename(cssBundle),
    await readFile(join(WEB, "src/icon.svg")),
  );
  const written = await Promise.all([
    writeCompressed(join(BUNDLE, "index.html"), new TextEncoder().encode(document)),
    ...result.outputFiles.map((file) => writeCompressed(join(ASSETS, basename(file.path)), file.contents)),
  ]);
  const firstLoad = written.filter(({ name }) => name === "index.html" || first.has(name));
  report(written, firstLoad);
}

function report(written: readonly Compressed[], firstLoad: readonly Compressed[]): void {
  const sum = (files: readonly Compressed[]) => files.reduce((total, file) => total + file.gzipBytes, 0);
  const kilobytes = (bytes: number) => `${(bytes / 1000).toFixed(1)} kB`;
  console.log(`page: first load ${kilobytes(sum(firstLoad))}, all ${kilobytes(sum(written))} (gzip)`);
  if (sum(firstLoad) > MAX_FIRST_LOAD_BYTES) {
    throw new Error(
      `The first load is larger than ${kilobytes(MAX_FIRST_LOAD_BYTES)}. Load a view on demand.`,
    );
  }
}

await main();
