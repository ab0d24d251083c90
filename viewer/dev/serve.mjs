// `npm run dev`: the page with the test double of its server, without Python. Loading again builds again.
import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { fileURLToPath, pathToFileURL } from "node:url";
import path from "node:path";
import * as esbuild from "esbuild";
import { build, options } from "../build.mjs";

const here = path.dirname(fileURLToPath(import.meta.url));
const out = path.join(here, "../out/dev");
const port = Number(process.env.PORT ?? 8790);
const repeat = Number(process.env.STEPS ?? 1);

async function double() {
  const made = path.join(out, "double.mjs");
  await esbuild.build({ ...options, stdin: { contents: 'export { Double } from "./double.ts"; export { encode } from "../src/data/frame.ts";', resolveDir: here, loader: "ts" }, outfile: made, format: "esm", platform: "node" });
  const { Double, encode } = await import(`${pathToFileURL(made).href}?${Date.now()}`);
  return { source: new Double(repeat), encode };
}

await build(out, { minify: false });
let { source, encode } = await double();
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css" };

createServer(async (request, answer) => {
  const address = new URL(request.url ?? "/", "http://localhost");
  if (address.pathname.startsWith("/api/")) {
    try {
      const value = await source.get(address.pathname.slice(5) + address.search);
      answer.writeHead(200, { "Content-Type": "application/x-stepscope" }).end(Buffer.from(encode(value)));
    } catch (error) {
      answer.writeHead(error.status || 500, { "Content-Type": "application/json" }).end(JSON.stringify({ error: { what: error.message, todo: error.todo ?? "" } }));
    }
    return;
  }
  if (address.pathname === "/") {
    await build(out, { minify: false });
    ({ source, encode } = await double());
  }
  const name = address.pathname === "/" ? "index.html" : path.basename(address.pathname);
  const content = await readFile(path.join(out, name)).catch(() => null);
  if (content === null) answer.writeHead(404).end();
  else answer.writeHead(200, { "Content-Type": TYPES[path.extname(name)] ?? "text/plain" }).end(content);
}).listen(port, "127.0.0.1", () => console.log(`http://127.0.0.1:${port}/`));
