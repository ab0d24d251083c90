// Cluster: workers as rows: their clocks, who waited for whom, and who was late; 1,000 of them on one page.
import { useEffect, useMemo, useRef } from "preact/hooks";
import { between, categoryColour } from "../colour.ts";
import { type Column, type Strings, text } from "../data/frame.ts";
import type { Cluster } from "../data/types.ts";
import { count, held, number, shortened, size, spent, time, whole } from "../format.ts";
import type { Page, PageProps } from "../page.ts";
import { Await, Notes } from "../parts/await.tsx";
import { Download } from "../parts/download.tsx";
import { Measured } from "../parts/measured.tsx";
import { Name } from "../parts/name.tsx";
import { type ColumnOf, Table, sorted, tableRows } from "../parts/table.tsx";

function View(props: PageProps) {
  return <Await of={props.data.cluster as never}>{(cluster: Cluster) => <Workers {...props} cluster={cluster} />}</Await>;
}

function Workers(props: PageProps & { readonly cluster: Cluster }) {
  const { cluster, state, act, theme } = props;
  const { tasks } = cluster;
  const columns = useMemo(() => taskColumns(cluster, theme), [cluster, theme]);
  const links = useMemo(() => linkColumns(cluster), [cluster]);
  const all = useMemo(() => tasks.name.map((_, row) => row), [cluster]);
  const found = useMemo(() => withWords(tasks.name, state.filter), [cluster, state.filter]);
  const sort = state.sort || usualSort(tasks);
  const late = all.reduce((most, row) => ((tasks.cost_ns[row] || 0) > (tasks.cost_ns[most] || 0) ? row : most), 0);
  return (
    <div class="cluster-page">
      <p class="headline">{number(tasks.name.length, "worker")}, {number(cluster.steps, "step")}{(tasks.cost_ns[late] || 0) > 0 && <>: {shortened(tasks.name[late] ?? "", 60)} kept others waiting {time(tasks.cost_ns[late])}</>}</p>
      {cluster.slowest && <p class="cause"><button type="button" class="link" onClick={() => act.select({ kind: "task", name: cluster.slowest?.task ?? "" })}>{shortened(cluster.slowest.task, 60)}</button> takes {time(cluster.slowest.ns)} a step, {(cluster.slowest.ns / cluster.slowest.usual_ns).toFixed(1)} times as long as most: {time(cluster.slowest.usual_ns)}</p>}
      {cluster.absent.length > 0 && <p class="warn">{cluster.absent.slice(0, 5).map((one) => `${shortened(one.task, 60)}: ${shortened(one.what, 200)}`).join("; ")}{cluster.absent.length > 5 && ` and ${cluster.absent.length - 5} more`}</p>}
      {cluster.steps > 0 && cluster.task_step_ns.length > 0 && <Heat {...props} />}
      <section class="rows-box" aria-label="Workers">
        <div class="bar-row"><h2>workers</h2>{all.length > FEW && <input type="search" class="filter" aria-label="Filter workers" placeholder="filter" value={state.filter} onInput={(event) => act.set({ filter: event.currentTarget.value }, true)} />}{found.length < all.length && <span class="quiet">{whole(found.length)} of {whole(all.length)}</span>}<span class="grow" /><Download name="workers" rows={() => tableRows(columns, sorted(found, columns, sort))} /></div>
        <Table label="Workers" columns={columns} count={tasks.name.length} rows={found} sort={sort} onSort={(sort) => act.set({ sort })}
          chosen={(row) => state.select?.kind === "task" && state.select.name === tasks.name[row]} onChoose={(row) => act.select({ kind: "task", name: tasks.name[row] ?? "" })} />
      </section>
      {links.count > 0 && (
        <section class="rows-box" aria-label="Who waited for whom">
          <div class="bar-row"><h2>who waited for whom</h2><span class="grow" /><Download name="links" rows={() => tableRows(links.columns, Array.from({ length: links.count }, (_, row) => row))} /></div>
          <Table label="Who waited for whom" columns={links.columns} count={links.count} sort={links.columns.some((one) => one.id === "idle_ns") ? "-idle_ns" : ""} onSort={() => undefined} />
        </section>
      )}
      <Notes of={cluster} />
    </div>
  );
}

/** With no more workers than this all of them are in sight: there is nothing to look for. */
const FEW = 10;

/** Which workers have the words in their name. */
export function withWords(names: readonly string[], words: string): number[] {
  const wanted = words.trim().toLowerCase();
  return names.map((_, row) => row).filter((row) => (names[row] ?? "").toLowerCase().includes(wanted));
}

/** What the workers are in the order of until somebody chooses: who kept others waiting most stands first. */
export function usualSort({ cost_ns }: Pick<Cluster["tasks"], "cost_ns">): string {
  return Array.from(cost_ns).some((ns) => ns > 0) ? "-cost_ns" : "";
}

function taskColumns({ tasks }: Cluster, theme: PageProps["theme"]): ColumnOf[] {
  // Clocks are seconds apart and known to microseconds: bars of the errors have a scale of their own.
  let most = 0;
  for (let row = 0; row < tasks.name.length; row += 1) most = Math.max(most, tasks.error_ns[row] || 0);
  const bar = (row: number) => {
    if (Number.isNaN(tasks.offset_ns[row] ?? Number.NaN)) return "-";
    const error = tasks.error_ns[row] ?? Number.NaN;
    const long = Number.isNaN(error) ? 38 : (error / (most || 1)) * 38;
    return (
      <svg width="80" height="16" role="img" aria-label={Number.isNaN(error) ? "error unknown" : `known to ${time(error)}`}>
        <line x1={40 - long} x2={40 + long} y1="8" y2="8" stroke={theme.quiet} stroke-width="1.5" stroke-dasharray={Number.isNaN(error) ? "2 3" : undefined} />
        {!Number.isNaN(error) && [40 - long, 40 + long].map((x, end) => <line key={end} x1={x} x2={x} y1="4" y2="12" stroke={theme.quiet} stroke-width="1.5" />)}
        <circle cx="40" cy="8" r="2.5" fill={theme.accent} />
      </svg>
    );
  };
  const column = (id: keyof Cluster["tasks"], label: string, show: (value: number) => string, hint: string): ColumnOf => ({
    id, label, number: true, hint, value: (row) => Number((tasks[id] as Column)[row] ?? Number.NaN), show: (row) => show(Number((tasks[id] as Column)[row] ?? Number.NaN)),
  });
  return [
    { id: "name", label: "worker", wide: true, value: (row) => tasks.name[row] ?? "", show: (row) => <Name of={tasks.name[row] ?? ""} most={48} grows /> },
    column("ops", "ops", count, "Executions"),
    column("busy_ns", "busy", spent, "Time in ops"),
    column("idle_ns", "waited", spent, "Waited for others"),
    column("cost_ns", "kept waiting", spent, "How long others waited for it"),
    column("steps_late", "late in", count, "Steps in which it came last"),
    { id: "error_ns", label: "clock error", value: (row) => tasks.error_ns[row] ?? Number.NaN, show: bar, hint: "What is not known of its clock's offset, as a bar; all on one scale" },
    { id: "offset_ns", label: "offset ± error", number: true, value: (row) => tasks.offset_ns[row] ?? Number.NaN, show: (row) => `${time(tasks.offset_ns[row])} ± ${Number.isNaN(tasks.error_ns[row] ?? Number.NaN) ? "unknown" : time(tasks.error_ns[row])}` },
    { id: "ended", label: "ended", value: (row) => text(tasks.ended, row), show: (row) => (text(tasks.ended, row) === "no" ? <span class="failed-sign">✕ no</span> : text(tasks.ended, row)) },
  ];
}

const isStrings = (column: unknown): column is Strings => typeof column === "object" && column !== null && "table" in column;

function linkColumns(cluster: Cluster): { columns: ColumnOf[]; count: number } {
  const { links } = cluster;
  const cell = (id: string, row: number): string | number => {
    const column = links[id];
    return isStrings(column) ? text(column, row) : ((column as ArrayLike<string | number> | undefined)?.[row] ?? "");
  };
  const words = ([id, label]: readonly [string, string]): ColumnOf[] => (id in links ? [{ id, label, wide: true, value: (row) => String(cell(id, row)), show: (row) => <Name of={String(cell(id, row))} most={48} /> }] : []);
  const figure = ([id, label, show]: readonly [string, string, (value: number) => string]): ColumnOf[] => (id in links ? [{ id, label, number: true, value: (row) => Number(cell(id, row)), show: (row) => show(Number(cell(id, row))) }] : []);
  const first = links.source ?? links.key;
  const rows = isStrings(first) ? first.codes.length : ((first as ArrayLike<unknown> | undefined)?.length ?? 0);
  const both = "source" in links ? ([["source", "from"], ["target", "to"]] as const) : ([["key", "pair"]] as const);
  return {
    count: rows,
    columns: [...both.flatMap(words), ...([["calls", "transfers", count], ["bytes", "bytes", held], ["idle_ns", "kept idle", spent], ["waiting_ns", "waited", spent], ["moving_ns", "moving", spent], ["max_ns", "longest", spent]] as const).flatMap(figure)],
  };
}

/** How tall a worker's row of the picture is: all of them are on one page, and the table begins on it, too. */
export const heatRow = (workers: number, room = 320): number => Math.min(22, Math.floor((room / workers) * 2) / 2 || room / workers);

/** Steps from left to right, workers from top to bottom, stronger where a step took longer. */
function Heat({ cluster, state, act, theme }: PageProps & { readonly cluster: Cluster }) {
  const { tasks } = cluster;
  const rows = tasks.name.length;
  const steps = Math.round(cluster.task_step_ns.length / Math.max(1, rows));
  const high = heatRow(rows);
  const canvas = useRef<HTMLCanvasElement>(null);
  const chosen = state.select?.kind === "task" ? tasks.name.indexOf(state.select.name) : -1;
  return (
    <section aria-label="Steps of each worker">
      <div class="bar-row"><h2>steps <span class="quiet">from left to right, workers from top to bottom; the stronger the colour, the longer it took</span></h2><span class="grow" /><Download name="cluster" picture={() => canvas.current} /></div>
      <Measured class="heat">{(width) => <HeatPicture {...{ cluster, canvas, width, steps, rows, high, chosen, theme }} onPick={(row) => act.select({ kind: "task", name: tasks.name[row] ?? "" })} />}</Measured>
      <p class="quiet">{whole(rows)} workers × {whole(steps)} steps{cluster.bytes ? `, ${size(cluster.bytes)} moved` : ""}</p>
    </section>
  );
}

/** The shortest and the longest of those that there are. */
export function bounds(lengths: Column): [number, number] {
  let [least, most] = [Number.POSITIVE_INFINITY, 0];
  for (let at = 0; at < lengths.length; at += 1) {
    const ns = lengths[at] ?? Number.NaN;
    if (!(ns > 0)) continue;
    least = Math.min(least, ns);
    most = Math.max(most, ns);
  }
  return [Number.isFinite(least) ? least : 0, most];
}

/** Which workers are on one of so many lines of the picture: [first, last). */
export const linesRows = (line: number, lines: number, rows: number): [number, number] => [Math.floor((line * rows) / lines), Math.max(Math.floor((line * rows) / lines) + 1, Math.floor(((line + 1) * rows) / lines))];

/** The longest of a step among some workers; NaN where none has it. */
export function longestOf(lengths: Column, steps: number, step: number, [first, last]: [number, number]): number {
  let most = Number.NaN;
  for (let row = first; row < last; row += 1) {
    const ns = lengths[row * steps + step] ?? Number.NaN;
    if (!Number.isNaN(ns) && !(ns <= most)) most = ns;
  }
  return most;
}

interface HeatProps {
  readonly cluster: Cluster;
  readonly canvas: { current: HTMLCanvasElement | null };
  readonly width: number;
  readonly steps: number;
  readonly rows: number;
  readonly high: number;
  readonly chosen: number;
  readonly theme: PageProps["theme"];
  readonly onPick: (row: number) => void;
}

function HeatPicture({ cluster, canvas, width, steps, rows, high, chosen, theme, onPick }: HeatProps) {
  const left = rows <= 40 ? 120 : 0;
  const height = Math.ceil(rows * high);
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context || !canvas.current) return;
    const dense = devicePixelRatio || 1;
    canvas.current.width = width * dense;
    canvas.current.height = height * dense;
    context.setTransform(dense, 0, 0, dense, 0, 0);
    context.fillStyle = theme.ground;
    context.fillRect(0, 0, width, height);
    const [least, most] = bounds(cluster.task_step_ns);
    const wide = (width - left) / Math.max(1, steps);
    // Rows thinner than a pixel share it: the longest shows, for a single slow worker must not vanish.
    const lines = Math.min(rows, Math.max(1, Math.floor(height * dense)));
    const thick = height / lines;
    const shades = Array.from({ length: 33 }, (_, shade) => between(theme.dark ? "#22272d" : "#f0f3f6", categoryColour("computing", theme), 0.12 + (0.88 * shade) / 32));
    context.font = theme.font;
    context.textBaseline = "middle";
    for (let row = 0; left && row < rows; row += 1) {
      context.fillStyle = row === chosen ? theme.accent : theme.quiet;
      context.fillText(shortened(cluster.tasks.name[row] ?? "", 18), 0, row * high + high / 2);
    }
    for (let line = 0; line < lines; line += 1) {
      for (let step = 0; step < steps; step += 1) {
        const ns = longestOf(cluster.task_step_ns, steps, step, linesRows(line, lines, rows));
        if (!(ns > 0)) continue;
        context.fillStyle = shades[Math.round(((ns - least) / (most - least || 1)) * 32)] ?? "";
        context.fillRect(left + step * wide, line * thick, Math.max(wide - (wide > 4 ? 1 : 0), 0.7), Math.max(thick - (thick > 4 ? 1 : 0), 1 / dense));
      }
    }
    if (chosen >= 0) {
      context.strokeStyle = theme.accent;
      context.lineWidth = 1.5;
      context.strokeRect(left + 0.5, chosen * high, width - left - 1, Math.max(high, 3));
    }
  }, [cluster, width, theme, chosen]);
  const said = (x: number, y: number): string => {
    const row = Math.min(rows - 1, Math.max(0, Math.floor(y / high)));
    const step = Math.min(steps - 1, Math.floor(((x - left) / (width - left)) * steps));
    return step < 0 ? shortened(cluster.tasks.name[row] ?? "", 80) : `${shortened(cluster.tasks.name[row] ?? "", 80)}, ${shortened(cluster.step_name?.[step] ?? `step ${step}`, 60)}: ${time(cluster.task_step_ns[row * steps + step])}`;
  };
  return <canvas ref={canvas} class="pick" role="img" aria-label={`How long each of ${steps} steps took on each of ${rows} workers`} style={{ width: `${width}px`, height: `${height}px` }}
    onMouseMove={(event) => { event.currentTarget.title = said(event.offsetX, event.offsetY); }} onClick={(event) => onPick(Math.min(rows - 1, Math.floor(event.offsetY / high)))} />;
}

export const cluster: Page = { id: "cluster", label: "Cluster", needs: () => ({ cluster: { name: "cluster" } }), View };
