// The right-hand panel: what is selected, the same on every page.
import { useEffect, useMemo, useState } from "preact/hooks";
import type uPlot from "uplot";
import { meaning } from "./colour.ts";
import { text } from "./data/frame.ts";
import type { Index, Layer, Op, OpTimes, SourceLines } from "./data/types.ts";
import { lastPart, number, shortened, share, size, spent, time, whole } from "./format.ts";
import { type PageProps, runParam } from "./page.ts";
import { Await, Notes, sentence } from "./parts/await.tsx";
import { Chart, axes } from "./parts/chart.tsx";
import { Guard } from "./parts/guard.tsx";
import { Swatch } from "./parts/hatches.tsx";
import { Measured } from "./parts/measured.tsx";
import { Name } from "./parts/name.tsx";
import type { Selection } from "./state.ts";

const KIND_WORDS: Record<Selection["kind"], string> = { op: "op", layer: "layer", type: "op type", line: "source line", task: "worker" };

export function Panel(props: PageProps) {
  const { state, act } = props;
  const select = state.select;
  if (!select) return null;
  return (
    <aside class="panel" aria-label="Selection">
      <header>
        <span class="quiet">{KIND_WORDS[select.kind]}</span>
        <button type="button" class="plain close" aria-label="Close the panel" title="Close (Esc)" onClick={() => act.select(null)}>✕</button>
        <h2 data-testid="selected"><Name of={select.name} most={120} /></h2>
      </header>
      <Guard what="The selection">{select.kind === "op" ? <OpPanel {...props} select={select} />
        : select.kind === "layer" ? <LayerPanel {...props} select={select} />
        : select.kind === "task" ? <p class="quiet">Its row on the Cluster page has its clock, what it waited for and whom it kept waiting.</p>
        : <GroupPanel {...props} select={select} />}</Guard>
    </aside>
  );
}

type Chosen = PageProps & { readonly select: Selection };

/** By row where one was pointed at, if that is still this op; a report has ops by name alone. */
function askOp({ store, state, select }: Chosen) {
  const run = runParam(state);
  const byRow = select.row === undefined || state.run === "all" ? null : store.ask<Op>({ name: "op", params: { run, row: select.row } });
  // Tiles have long names with their middle left out: there the row alone says which op is meant.
  const same = byRow?.value === undefined || byRow.value.name === select.name || select.name.includes("…");
  return byRow && same && byRow.failure?.status !== 404 ? byRow : store.ask<Op>({ name: "op", params: { run, name: select.name } });
}

function OpPanel(props: Chosen) {
  const { state, act, theme } = props;
  return (
    <Await of={askOp(props)}>
      {(op) => (
        <>
          {op.executions > 0 ? (
            <p class="lead"><b class="figure">{time(op.self_ns)}</b> <span class="quiet">{share(op.share)} of the run's op time{op.ns !== undefined && op.ns !== op.self_ns && `; ${time(op.ns)} with what it waited for inside`}</span></p>
          ) : <NotRun op={op} />}
          <dl class="facts">
            {op.type && <><dt>type</dt><dd><button type="button" class="link" onClick={() => act.select({ kind: "type", name: op.type })}>{shortened(op.type, 60)}</button></dd></>}
            {op.category !== undefined && <><dt>category</dt><dd><Swatch category={op.category} theme={theme} /> {meaning(op.category).label}</dd></>}
            {op.layer && <><dt>layer</dt><dd><button type="button" class="link" onClick={() => act.select({ kind: "layer", name: op.layer ?? "" })}><Name of={op.layer} most={48} /></button></dd></>}
            {op.device && <><dt>device</dt><dd>{shortened(op.device, 60)}</dd></>}
            {op.thread && <><dt>thread</dt><dd>{shortened(op.thread, 60)}</dd></>}
            {op.start_ns !== undefined && <><dt>began</dt><dd>{time(op.start_ns)} <span class="quiet">into the run</span></dd></>}
            {op.waited_ns ? <><dt>waited</dt><dd>{time(op.waited_ns)} <span class="quiet">from ready to running</span></dd></> : null}
            {op.on_path && <><dt>critical path</dt><dd>on it</dd></>}
            {op.executions > 1 && <><dt>executions</dt><dd>{whole(op.executions)} <span class="quiet">in this run</span></dd></>}
          </dl>
          <Lines of={op.source} line={op.line} act={act} />
          <Times of={op.times} theme={theme} />
          <Tensors op={op} act={act} />
          {op.memory && op.memory.peak_bytes > 0 && (
            <section><h3>memory of its kernel</h3><dl class="facts"><dt>at most</dt><dd>{size(op.memory.peak_bytes)}</dd><dt>in all</dt><dd>{size(op.memory.total_bytes)}</dd>{op.memory.live_bytes > 0 && <><dt>kept</dt><dd>{size(op.memory.live_bytes)}</dd></>}</dl></section>
          )}
          {op.placement && <section><h3>placement</h3><p>{shortened(op.placement.assigned, 80)}: {shortened(op.placement.reason, 300)}{op.placement.differs && <span class="warn"> (asked for {shortened(op.placement.requested, 80)})</span>}</p></section>}
          {op.executions > 0 && op.coverage && <section><h3>coverage</h3><p>{op.coverage.state}{op.coverage.detail && `: ${shortened(op.coverage.detail, 300)}`}</p></section>}
          <Notes of={op} />
          <nav class="goto" aria-label="Show the selected op in">
            <span class="quiet">show in</span>
            {op.start_ns !== undefined && <button type="button" class="small" onClick={() => act.set({ page: "timeline", ...around(op, state.run) })}>timeline</button>}
            {op.executions > 0 && <button type="button" class="small" onClick={() => act.set({ page: "ops", by: "name", filter: op.name, tree: state.tree })}>ops</button>}
            <button type="button" class="small" onClick={() => act.set({ page: "graph", scope: op.name.includes("/") ? op.name.slice(0, op.name.lastIndexOf("/")) : "/" })}>graph</button>
            {op.end_ns !== undefined && <button type="button" class="small" onClick={() => act.set({ page: "memory", at: op.end_ns ?? null })}>memory</button>}
          </nav>
        </>
      )}
    </Await>
  );
}

/** What became of an op without an execution of its own: fed, folded, fused, pruned. */
function NotRun({ op }: { op: Op }) {
  const { coverage } = op;
  return (
    <>
      <p class="lead"><b>{coverage?.state || "did not run"}</b> <span class="quiet">no execution of its own in this run</span></p>
      {coverage && <p class="cause-of">{sentence([coverage.meaning, coverage.reason === coverage.state ? "" : shortened(coverage.reason, 300)].filter(Boolean).join("; "))}</p>}
    </>
  );
}

/** What went in and what came out. */
function Tensors({ op, act }: { op: Op; act: PageProps["act"] }) {
  return (
    <>
      {op.inputs.length > 0 && (
        <section><h3>inputs</h3>
          <ul class="rows">{op.inputs.map((input, place) => (
            <li key={place}><button type="button" class="link" onClick={() => act.select({ kind: "op", name: input.name })}><Name of={input.name} most={40} /></button><span class="quiet">{input.dtype} {input.shape}</span><span class="figure">{input.bytes ? size(input.bytes) : ""}</span></li>
          ))}</ul>
        </section>
      )}
      {op.outputs.length > 0 && (
        <section><h3>outputs</h3>
          <ul class="rows">{op.outputs.map((output, place) => (
            <li key={place}><span>:{output.slot}</span><span class="quiet">{output.dtype} {output.shape}</span><span class="figure">{output.bytes ? size(output.bytes) : ""}</span></li>
          ))}</ul>
        </section>
      )}
    </>
  );
}

/** A view of the timeline with an op in its middle third. */
export function around({ start_ns: from = 0, end_ns: to = from }: Pick<Op, "start_ns" | "end_ns">, run: string): { view: [number, number] | null } {
  const long = Math.max(to - from, 100);
  return { view: run === "all" ? null : [Math.round(from - long), Math.round(to + long)] };
}

function LayerPanel({ store, state, act, theme, select }: Chosen) {
  const layer = store.ask<Layer>({ name: "layer", params: { run: runParam(state), name: select.name } });
  return (
    <Await of={layer}>
      {(value) => (
        <>
          <p class="lead"><b class="figure">{time(value.self_ns)}</b> <span class="quiet">{share(value.share)} of the run's op time, {number(value.calls, "call")}</span></p>
          <dl class="facts">
            {value.forward_ns > 0 && <><dt>forward</dt><dd>{time(value.forward_ns)}</dd></>}
            {value.backward_ns > 0 && <><dt>backward</dt><dd>{time(value.backward_ns)}</dd></>}
            {value.optimizer_ns > 0 && <><dt>optimizer</dt><dd>{time(value.optimizer_ns)}</dd></>}
            {(value.bytes ?? 0) > 0 && <><dt>output</dt><dd>{size(value.bytes)}</dd></>}
          </dl>
          <LineOf store={store} line={value.line} act={act} />
          <Times of={value.times ?? null} theme={theme} />
          <OpList ops={value.ops} act={act} />
          <Notes of={value} />
          <nav class="goto" aria-label="Show the selected layer in">
            <span class="quiet">show in</span>
            <button type="button" class="small" onClick={() => act.set({ page: "ops", by: "name", filter: select.name })}>ops</button>
            <button type="button" class="small" onClick={() => act.set({ page: "graph", scope: select.name })}>graph</button>
          </nav>
        </>
      )}
    </Await>
  );
}

/** A type or a line: what of the run has it, from the index that search goes by. */
function GroupPanel({ store, state, act, select }: Chosen) {
  const index = store.ask<Index>({ name: "index", params: { run: runParam(state) } });
  return (
    <Await of={index}>
      {(value) => {
        const ops = membersOf(value, select);
        const total = ops.reduce((sum, op) => sum + op.self_ns, 0);
        return (
          <>
            <p class="lead"><b class="figure">{time(total)}</b> <span class="quiet">in {number(ops.length, "op")} of this run</span></p>
            {select.kind === "line" && <LineOf store={store} line={select.name} act={act} />}
            <OpList ops={ops} act={act} />
            <nav class="goto" aria-label="Show the selection in">
              <span class="quiet">show in</span>
              <button type="button" class="small" onClick={() => act.set({ page: "ops", by: select.kind, filter: "" })}>ops</button>
            </nav>
          </>
        );
      }}
    </Await>
  );
}

export function membersOf(index: Index, select: Selection): { name: string; type: string; self_ns: number }[] {
  const column = select.kind === "type" ? index.type : select.kind === "line" ? index.line : index.layer;
  const members: { name: string; type: string; self_ns: number }[] = [];
  for (let row = 0; row < index.name.length; row += 1) {
    if (text(column, row) !== select.name) continue;
    members.push({ name: index.name[row] ?? "", type: text(index.type, row), self_ns: index.self_ns[row] ?? 0 });
  }
  return members;
}

function OpList({ ops, act }: { ops: readonly { readonly name: string; readonly type: string; readonly self_ns: number }[]; act: PageProps["act"] }) {
  const [most, setMost] = useState(12);
  useEffect(() => setMost(12), [ops.length]);
  return (
    <section>
      <h3>its ops</h3>
      <ul class="rows">
        {ops.slice(0, most).map((op) => (
          <li key={op.name}><button type="button" class="link" onClick={() => act.select({ kind: "op", name: op.name })} title={shortened(op.name, 500)}>{shortened(lastPart(op.name) || op.name, 36)}</button><span class="quiet">{shortened(op.type, 24)}</span><span class="figure">{spent(op.self_ns)}</span></li>
        ))}
      </ul>
      {ops.length > most && <button type="button" class="link" onClick={() => setMost(most + 200)}>{number(ops.length - most, "more op")}</button>}
    </section>
  );
}

function LineOf({ store, line, act }: { store: PageProps["store"]; line: string; act: PageProps["act"] }) {
  // A row of the table of lines may be of ops whose line is not known.
  if (!/:\d+$/.test(line)) return null;
  const asked = store.ask<SourceLines & { available: boolean }>({ name: "source", params: { line } });
  return <Lines of={asked.value?.available === false ? null : (asked.value ?? null)} line={line} act={act} />;
}

/** Without the white space that all lines begin with. */
export function dedented(lines: SourceLines["lines"]): [number, string][] {
  const indents = lines.filter(([, code]) => code.trim()).map(([, code]) => code.length - code.trimStart().length);
  const least = indents.length ? Math.min(...indents) : 0;
  return lines.map(([at, code]) => [at, code.slice(least)]);
}

/** The source line with those around it. */
function Lines({ of, line, act }: { of: SourceLines | null; line: string; act: PageProps["act"] }) {
  if (!line && !of) return null;
  return (
    <section>
      <h3>source</h3>
      <button type="button" class="link" onClick={() => act.select({ kind: "line", name: line })}><Name of={line || `${of?.file}:${of?.line}`} most={60} /></button>
      {of && of.lines.length > 0 && (
        <pre class="source">{dedented(of.lines).map(([at, code]) => <span key={at} class={at === of.line ? "here" : ""}><i>{at}</i>{shortened(code, 200) || " "}{"\n"}</span>)}</pre>
      )}
    </section>
  );
}

function Times({ of, theme }: { of: Pick<OpTimes, "runs" | "ns"> & Partial<OpTimes> | null; theme: PageProps["theme"] }) {
  const options = useMemo(() => timesOptions(theme), [theme]);
  const data = useMemo(() => (of ? [Array.from(of.runs), Array.from(of.ns, (ns) => (Number.isNaN(ns) ? null : ns))] : [[], []]) as uPlot.AlignedData, [of]);
  if (!of || of.ns.length < 2) return null;
  return (
    <section>
      <h3>over {number(of.ns.length, "run")}</h3>
      {of.median_ns !== undefined && <p class="quiet">median {time(of.median_ns)}, longest {time(of.max_ns)}</p>}
      <Measured class="times">{(width) => <Chart label="Its time in each run" width={width} height={96} theme={theme} options={options} data={data} />}</Measured>
    </section>
  );
}

function timesOptions(theme: PageProps["theme"]): Omit<uPlot.Options, "width" | "height"> {
  return {
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, y: false },
    scales: { x: { time: false }, y: { range: (_chart, _least, high) => [0, high || 1] } },
    axes: axes(theme, (run) => (Number.isInteger(run) ? `#${run}` : ""), (ns) => time(ns), 58),
    series: [{}, { stroke: theme.accent, width: 1, points: { show: false } }],
  };
}

