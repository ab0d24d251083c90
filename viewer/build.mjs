// Makes the page: one script and one stylesheet, in src/stepscope/web/page (or `--out DIRECTORY`).
//
// They are plain files without modules or addresses, so that a server can send them and a report can
// hold them in itself.
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import path from "node:path";
import * as esbuild from "esbuild";

const here = path.dirname(fileURLToPath(import.meta.url));

/** What esbuild is told, for the page, the tests and the development server alike. */
export const options = {
  bundle: true,
  target: ["es2022"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  logLevel: "warning",
};

/** What the licences of the libraries inside ask to be kept with every copy. */
async function licences() {
  const parts = [];
  for (const name of ["preact", "uplot"]) {
    const text = await readFile(path.join(here, "node_modules", name, "LICENSE"), "utf8");
    parts.push(`${name}\n\n${text.trim()}\n`);
  }
  return parts.join(`\n${"-".repeat(72)}\n\n`);
}

/** Builds the page into a directory. */
export async function build(out, { minify = true } = {}) {
  await mkdir(out, { recursive: true });
  await esbuild.build({
    ...options,
    entryPoints: { stepscope: path.join(here, "src/main.tsx") },
    outdir: out,
    format: "iife",
    minify,
    sourcemap: minify ? false : "inline",
    // Markup around an inline script must not end inside of it.
    charset: "ascii",
    supported: { "inline-script": false },
    define: { "process.env.NODE_ENV": '"production"' },
  });
  await copyFile(path.join(here, "src/index.html"), path.join(out, "index.html"));
  await writeFile(path.join(out, "LICENCES.txt"), await licences());
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const place = process.argv.indexOf("--out");
  const out = place > 0 ? process.argv[place + 1] : path.join(here, "../src/stepscope/web/page");
  await build(path.resolve(out));
}
