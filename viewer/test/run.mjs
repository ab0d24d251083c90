// Runs the unit tests: esbuild makes one plain file of each, node's own test runner does the rest.
import { spawnSync } from "node:child_process";
import { readdir, rm } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import path from "node:path";
import * as esbuild from "esbuild";
import { options } from "../build.mjs";

const here = path.dirname(fileURLToPath(import.meta.url));
const out = path.join(here, "../out/test");
const files = (await readdir(here)).filter((name) => name.endsWith(".test.ts"));
await rm(out, { recursive: true, force: true });
await esbuild.build({
  ...options,
  entryPoints: files.map((name) => path.join(here, name)),
  outdir: out,
  outExtension: { ".js": ".mjs" },
  format: "esm",
  platform: "node",
  loader: { ".css": "empty" },
  sourcemap: "inline",
});
const made = (await readdir(out)).map((name) => path.join(out, name));
const ran = spawnSync(
  process.execPath,
  ["--enable-source-maps", "--test", "--test-reporter=dot", ...made],
  { stdio: "inherit" },
);
process.exit(ran.status ?? 1);
