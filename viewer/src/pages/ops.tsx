// Ops: a table by type, name, layer, line, device or thread, and beside it the tree of scopes or files.
import { useMemo } from "preact/hooks";
import { type Theme, between, namedColour } from "../colour.ts";
import { type Column, text } from "../data/frame.ts";
import type { Ops, Tree } from "../data/types.ts";
import { count, held, number, share, shortened, size, spent, time } from "../format.ts";
import { type Page, type PageProps, runParam } from "../page.ts";
import { Await, Notes } from "../parts/await.tsx";
import { Choice } from "../parts/choice.tsx";
import { Download } from "../parts/download.tsx";
import { Icicle } from "../parts/icicle.tsx";
import { Measured } from "../parts/measured.tsx";
import { Name } from "../parts/name.tsx";
import { Bar, Spark } from "../parts/spark.tsx";
import { type ColumnOf, Table, sorted, tableRows } from "../parts/table.tsx";
import type { Selection } from "../state.ts";

const BY = [["type", "type"], ["name", "op"], ["layer", "layer"], ["line", "line"], ["file", "file"], ["function", "function"], ["device", "device"], ["thread", "thread"]] as const;
const TREES = [["scope.time", "time"], ["scope.bytes", "bytes"], ["file.time", "files"]] as const;
const SELECTS: Readonly<Record<string, Selection["kind"]>> = { type: "type", name: "op", layer: "layer", line: "line" };

const runOf = (state: PageProps["state"], typical: number | undefined): string | undefined =>
  state.over === "all" ? undefined : (runParam(state) ?? (typical === undefined ? undefined : String(typical)));

function View(props: PageProps) {
  const { state, act, data } = props;
  return (
    <div class="ops-page">
      <div class="bar-row">
        <Choice label="by" of={BY} value={state.by as "type"} onChoose={(by) => act.set({ by, sort: "" })} />
        <Choice label="of" of={[["all", "all runs"], ["run", "this run"]] as const} value={state.over} onChoose={(over) => act.set({ over })} />
        <input type="search" class="filter" aria-label="Filter rows" placeholder="filter" value={state.filter} onInput={(event) => act.set({ filter: event.currentTarget.value }, true)} />
        <span class="grow" />
      </div>
      <div class="split">
        <Await of={data.ops as never}>{(ops: Ops) => <OpTable {...props} ops={ops} />}</Await>
        <section class="tree" aria-label="Tree">
          <div class="bar-row"><Choice label="scopes by" of={TREES} value={state.tree as "scope.time"} onChoose={(tree) => act.set({ tree })} /><span class="grow" /><Download name="tree" picture={() => document.querySelector(".tree svg.icicle")} /></div>
          <Await of={data.icicle as never}>{(tree: Tree) => <Scopes {...props} tree={tree} />}</Await>
        </section>
      </div>
    </div>
  );
}

/** The columns of a table of ops; layers have their own. */
export function columnsOf(ops: Ops): ColumnOf[] {
  const of = (id: string) => (row: number): number => Number((ops.rows[id] as Column | undefined)?.[row] ?? Number.NaN);
  const words = (id: string) => (row: number): string => String((ops.rows[id] as readonly string[] | undefined)?.[row] ?? "");
  const figure = (id: string, label: string, show: (value: number) => string, hint?: string, spare?: number): ColumnOf[] =>
    id in ops.rows ? [{ id, label, number: true, value: of(id), show: (row) => show(of(id)(row)), ...(hint ? { hint } : {}), ...(spare ? { spare } : {}) }] : [];
  const runs = ops.spark?.runs.length ?? 0;
  const depth = of("depth");
  const columns: ColumnOf[] = [
    { id: "key", label: ops.by === "name" ? "op" : ops.by, wide: true, value: words("key"), show: (row) => <>{ops.by === "layer" && depth(row) > 0 && <span class="indent" style={{ width: `${Math.min(depth(row), 8) * 12}px` }} />}<Name of={words("key")(row) || "(none)"} most={64} grows /></> },
    ...(ops.by === "name" ? [{ id: "op", label: "type", value: words("op"), show: (row: number) => shortened(words("op")(row), 28) }] : []),
    ...figure("calls", "calls", count),
    ...figure("self_ns", "self", spent, "Time of its own, without what it waited for inside"),
    { id: "share", label: "share", number: true, value: of("share"), show: (row) => <><Bar share={of("share")(row)} /><span class="percent">{share(of("share")(row))}</span></> },
    ...(runs > 1 && ops.spark ? [{ id: "spark", label: `over ${number(runs, "run")}`, spare: 7, value: of("self_ns"), show: (row: number) => <Spark values={ops.spark?.ns ?? []} first={row * runs} count={runs} label={`over ${runs} runs`} /> }] : []),
    ...figure("p50_ns", "median/run", spent, "Of its time in a run", 5),
    ...figure("mean_ns", "mean/call", spent, "Of one call", 4),
    ...figure("p99_ns", "p99/run", spent, "Of its time in a run", 3),
    ...figure("max_ns", "longest call", spent, "Of its executions", 6),
    ...figure("forward_ns", "forward", spent),
    ...figure("backward_ns", "backward", spent),
    ...figure("optimizer_ns", "optimizer", spent),
    ...figure("total_ns", "total", spent, "From beginning to end, waits included", 2),
    ...figure("bytes", "output", held, undefined, 8),
    ...(ops.by === "type" || ops.by === "name" ? [{ id: "device", label: "device", spare: 1, value: words("device"), show: (row: number) => shortened(shortDevice(words("device")(row)), 24) }] : []),
  ];
  return columns;
}

/** `CPU:0` for a device of this process, `ps:0/CPU:0` for another task's. */
export function shortDevice(name: string): string {
  return name
    .replace(/^\/job:localhost\/replica:0\/task:0/, "")
    .replace(/\/job:([^/]+)(?:\/replica:0)?\/task:(\d+)(?=\/|$)/g, "$1:$2")
    .replace("/device:", "/")
    .replace(/^\//, "");
}

function OpTable({ ops, state, act }: PageProps & { readonly ops: Ops }) {
  const columns = useMemo(() => columnsOf(ops), [ops]);
  const rows = useMemo(() => matching(ops, state.filter), [ops, state.filter]);
  const kind = SELECTS[ops.by];
  return (
    <section class="rows-box" aria-label="Ops">
      <div class="bar-row"><p class="quiet">{number(rows.length, "row")}, {time(ops.self_ns)} in {number(ops.calls, "call")} of {number(ops.runs, "run")}</p><span class="grow" /><Download name={`ops-by-${ops.by}`} rows={() => tableRows(columns, sorted(rows, columns, state.sort))} /></div>
      <Table label={`Ops by ${ops.by}`} columns={columns} count={ops.rows.key.length} rows={rows} sort={state.sort} onSort={(sort) => act.set({ sort })}
        chosen={(row) => !!kind && state.select?.kind === kind && state.select.name === ops.rows.key[row]}
        {...(kind ? { onChoose: (row: number) => act.select({ kind, name: ops.rows.key[row] ?? "" }) } : {})}
        foot={ops.rest && ops.rest.rows > 0 ? <p class="quiet rest">and {number(ops.rest.rows, "more row")} in {time(ops.rest.self_ns)}</p> : undefined} />
      <Notes of={ops} />
    </section>
  );
}

/** Rows whose key or type has the words. */
export function matching(ops: Ops, filter: string): number[] {
  const wanted = filter.trim().toLowerCase();
  const types = ops.rows.op as readonly string[] | undefined;
  const rows: number[] = [];
  for (let row = 0; row < ops.rows.key.length; row += 1) {
    if (!wanted || (ops.rows.key[row] ?? "").toLowerCase().includes(wanted) || (types?.[row] ?? "").toLowerCase().includes(wanted)) rows.push(row);
  }
  return rows;
}

function Scopes({ tree, state, act, theme }: PageProps & { readonly tree: Tree }) {
  const paths = useMemo(() => pathsOf(tree.names, tree.parent), [tree]);
  const shown = tree.unit === "ns" ? time : size;
  return (
    <>
      <Measured class="icicle-box">
        {(width) => (
          <Icicle label="Scopes by size" names={tree.names} parent={tree.parent} value={tree.value} width={width} root={-1} line={theme.line} ink={theme.text}
            colour={(node) => scopeColour(paths[node] ?? "", theme)}
            title={(node) => `${shortened(paths[node] ?? "", 300)}\n${shown(tree.value[node])}${text(tree.type, node) ? `, mostly ${text(tree.type, node)}` : ""}`}
            chosen={(node) => !!state.select && (state.select.name === paths[node] || state.select.name === tree.names[node])}
            onChoose={(node) => act.select(leaf(tree, node) ? { kind: "op", name: paths[node] ?? "" } : { kind: "layer", name: paths[node] ?? "" })} />
        )}
      </Measured>
      <Notes of={tree} />
    </>
  );
}

/** One hue for all that is in a scope of the top, paler the deeper it lies. */
export function scopeColour(path: string, theme: Theme): string {
  if (!path) return theme.faint;
  const parts = path.split("/");
  return between(namedColour(parts[0] ?? "", theme), theme.ground, Math.min(0.62, (parts.length - 1) * 0.22));
}

const parents = new WeakMap<Tree, Set<number>>();

/** Whether nothing is inside: then it is an op. */
function leaf(tree: Tree, node: number): boolean {
  let found = parents.get(tree);
  if (!found) {
    found = new Set(Array.from(tree.parent as ArrayLike<number>));
    parents.set(tree, found);
  }
  return !found.has(node);
}

/** Full names from parts: a name that already has its parent's in front stays as it is. */
export function pathsOf(names: readonly string[], parent: Column): string[] {
  const paths: string[] = [];
  names.forEach((name, node) => {
    const above = paths[parent[node] ?? -1] ?? "";
    paths.push(!above || name.startsWith(`${above}/`) || above.startsWith("(") ? name : `${above}/${name}`);
  });
  return paths;
}

export const ops: Page = {
  id: "ops",
  label: "Ops",
  needs: (state, session) => {
    const run = runOf(state, session.typical?.run);
    const [of = "scope", by = "time"] = state.tree.split(".");
    return { ops: { name: "ops", params: { by: state.by, run } }, icicle: { name: "icicle", params: { of, by, run } } };
  },
  View,
};
