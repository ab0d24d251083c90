// What a parameter is when nothing is said: it is then no part of a resource's key, so that the same value
// has one key, in the page's memory and in a report.
import type { Params } from "./source.ts";

const FIXED: Readonly<Record<string, Params>> = {
  ops: { by: "type" },
  icicle: { of: "scope", by: "time" },
  graph: { scope: "" },
  memory: { by: "kind", device: "" },
  compare: { base: "0", new: "1", by: "name" },
};

/** Resources that are of all runs unless one is named. */
const OF_ALL: readonly string[] = ["session", "runs", "overview", "ops", "icicle", "compare", "cluster", "source", "changes"];

export function defaultsOf(name: string, typical: number | undefined): Params {
  const run = typical === undefined || OF_ALL.includes(name) ? {} : { run: typical };
  return { ...run, ...FIXED[name] };
}
