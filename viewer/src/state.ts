// What is shown, as one small object that the URL's fragment holds: a link shows what its sender saw.

export const PAGES = ["overview", "timeline", "ops", "graph", "memory", "compare", "cluster"] as const;
export type PageId = (typeof PAGES)[number];

/** What is chosen, the same on every page. */
export interface Selection {
  readonly kind: "op" | "layer" | "type" | "line" | "task";
  readonly name: string;
  /** Which execution of an op, where one was pointed at. */
  readonly row?: number;
}

export interface State {
  readonly page: PageId;
  /** In TensorBoard: which of the log directory's sources. */
  readonly source: string;
  /** A run's number, `all`, or "" for the typical one. */
  readonly run: string;
  readonly select: Selection | null;
  /** Timeline: what of it is in view, and the measured range, in ns. */
  readonly view: readonly [number, number] | null;
  readonly range: readonly [number, number] | null;
  readonly colour: "category" | "type" | "layer" | "device";
  /** Ops: how rows are grouped, of which runs, which are shown, by what they are sorted. */
  readonly by: string;
  readonly over: "all" | "run";
  readonly filter: string;
  readonly sort: string;
  readonly tree: string;
  /** Graph: the scope that is open (`/` is all of the graph, none where it opens), and what its colours mean. */
  readonly scope: string;
  readonly paint: "time" | "memory" | "device" | "coverage";
  /** Memory: of which device, stacked by what, and the instant that is looked into. */
  readonly device: string;
  readonly owners: string;
  readonly at: number | null;
  /** Compare: two sets, and what is a row. */
  readonly base: string;
  readonly new: string;
  readonly diff: string;
}

export const START: State = {
  page: "overview", source: "", run: "", select: null, view: null, range: null, colour: "category",
  by: "type", over: "all", filter: "", sort: "", tree: "scope.time", scope: "", paint: "time",
  device: "", owners: "kind", at: null, base: "0", new: "1", diff: "name",
};

const KINDS: readonly string[] = ["op", "layer", "type", "line", "task"];
const ONE_OF: Partial<Record<keyof State, readonly string[]>> = {
  page: PAGES,
  colour: ["category", "type", "layer", "device"],
  over: ["all", "run"],
  paint: ["time", "memory", "device", "coverage"],
};

/** The fragment of a state: only what differs from the start. */
export function toFragment(state: State): string {
  const parts: string[] = [];
  for (const key of Object.keys(START) as (keyof State)[]) {
    const value = state[key];
    if (value === START[key]) continue;
    let text: string;
    if (key === "select") {
      const chosen = state.select;
      if (!chosen) continue;
      text = `${chosen.kind}:${chosen.row === undefined ? "" : chosen.row}:${chosen.name}`;
    } else if (Array.isArray(value)) text = value.map((ns) => Math.round(ns)).join("-");
    else text = String(value);
    parts.push(`${key}=${encodeURIComponent(text.toWellFormed())}`);
  }
  return parts.length ? `#${parts.join("&")}` : "#";
}

function range(text: string): [number, number] | null {
  const found = /^(-?\d+)-(-?\d+)$/.exec(text);
  const [from, to] = [Number(found?.[1]), Number(found?.[2])];
  return found && to > from ? [from, to] : null;
}

/** The state that a fragment stands for; whatever it does not understand is as at the start. */
export function fromFragment(fragment: string): State {
  const state: Record<string, unknown> = { ...START };
  for (const part of fragment.replace(/^#/, "").split("&")) {
    const equals = part.indexOf("=");
    const key = part.slice(0, equals) as keyof State;
    if (equals < 0 || !(key in START)) continue;
    let text: string;
    try {
      text = decodeURIComponent(part.slice(equals + 1));
    } catch {
      continue;
    }
    if (key === "select") {
      const [, kind = "", row = "", name = ""] = /^([a-z]+):(\d*):([\s\S]*)$/.exec(text) ?? [];
      if (!KINDS.includes(kind) || !name) continue;
      state.select = row === "" ? { kind, name } : { kind, name, row: Number(row) };
    } else if (key === "view" || key === "range") state[key] = range(text);
    else if (key === "at") state.at = Number.isFinite(Number(text)) ? Number(text) : null;
    else if (ONE_OF[key]?.includes(text) ?? true) state[key] = text;
  }
  return state as unknown as State;
}

export const sameSelection = (one: Selection | null, other: Selection | null): boolean =>
  one === other || (!!one && !!other && one.kind === other.kind && one.name === other.name && one.row === other.row);
