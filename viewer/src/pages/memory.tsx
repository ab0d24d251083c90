// Memory: live bytes over time by owner; click an instant and see every tensor alive then.
import { useMemo } from "preact/hooks";
import uPlot from "uplot";
import { type Theme, categoryColour, namedColour } from "../colour.ts";
import { text } from "../data/frame.ts";
import type { Instant, MemoryFacts, Tensors } from "../data/types.ts";
import { held, number, share, shortened, size, time } from "../format.ts";
import { sizeTicks, tickLabel } from "../draw/axis.ts";
import { type Page, type PageProps, runParam } from "../page.ts";
import { Await, Empty, Notes } from "../parts/await.tsx";
import { Chart, axes } from "../parts/chart.tsx";
import { Choice } from "../parts/choice.tsx";
import { Download } from "../parts/download.tsx";
import { Swatch } from "../parts/hatches.tsx";
import { Measured } from "../parts/measured.tsx";
import { Name } from "../parts/name.tsx";
import { Bar } from "../parts/spark.tsx";
import { type ColumnOf, Table, sorted, tableRows } from "../parts/table.tsx";

const BY = [["kind", "owner"], ["type", "op type"], ["layer", "layer"], ["source", "line"]] as const;

function View(props: PageProps) {
  return <Await of={props.data.memory as never}>{(memory: MemoryFacts) => <Curve {...props} memory={memory} />}</Await>;
}

/** The point of the curve that holds at a moment. */
export function pointAt(ns: ArrayLike<number>, at: number): number {
  let [low, high] = [0, ns.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((ns[middle] ?? 0) <= at) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Which tensors are alive at a moment, largest first. */
export function aliveAt(tensors: Tensors, at: number): number[] {
  const alive: number[] = [];
  for (let row = 0; row < tensors.bytes.length; row += 1) {
    if ((tensors.from_ns[row] ?? 0) <= at && at < (tensors.to_ns[row] ?? 0)) alive.push(row);
  }
  return alive.sort((one, other) => (tensors.bytes[other] ?? 0) - (tensors.bytes[one] ?? 0) || one - other);
}

/** Sums from the lowest series up: what is drawn, one in front of the other. */
export function stacked(series: MemoryFacts["series"], points: number): number[][] {
  const sums: number[][] = [];
  series.key.forEach((_, place) => {
    const below = sums[place - 1];
    sums.push(Array.from({ length: points }, (_unused, at) => (below?.[at] ?? 0) + (series.bytes[place * points + at] ?? 0)));
  });
  return sums;
}

function Curve(props: PageProps & { readonly memory: MemoryFacts }) {
  const { memory, state, act, theme } = props;
  const points = memory.curve.ns.length;
  const colours = memory.series.key.map((key) => ownerColour(key, theme));
  const options = useMemo(() => optionsOf(memory, colours, theme), [memory, theme]);
  const data = useMemo<uPlot.AlignedData>(() => [Array.from(memory.curve.ns), ...stacked(memory.series, points).reverse()], [memory]);
  const at = state.at ?? memory.peak_ns;
  const point = pointAt(memory.curve.ns, at);
  const instant = memory.curve.ns[point] ?? 0;
  const nothing = nothingHeld(memory);
  if (nothing) return <div class="memory-page"><Empty what={nothing} todo={memory.estimated ? "`stepscope run --memory` follows every allocation." : ""} /><Notes of={memory} /></div>;
  const live = memory.curve.bytes[point] ?? 0;
  return (
    <div class="memory-page">
      <div class="bar-row">
        <p>peak {memory.estimated && "about "}<b class="figure">{size(memory.peak_bytes)}</b> <span class="quiet">at {time(memory.peak_ns)}{memory.limit !== null && `, limit ${size(memory.limit)}`}</span></p>
        {memory.devices.length > 1 && (
          <label class="quiet">device <select value={memory.device} onChange={(event) => act.set({ device: event.currentTarget.value, at: null })}>{memory.devices.map((device) => <option key={device}>{device}</option>)}</select></label>
        )}
        <Choice label="by" of={BY} value={state.owners as "kind"} onChoose={(owners) => act.set({ owners })} />
        <span class="grow" />
        <button type="button" class="small" onClick={() => act.set({ at: null })}>at the peak</button>
        <Download name="memory" picture={() => document.querySelector(".memory-chart canvas")} rows={() => ({ columns: ["ns", "bytes", ...memory.series.key], rows: Array.from({ length: points }, (_, place) => [memory.curve.ns[place] ?? 0, memory.curve.bytes[place] ?? 0, ...memory.series.key.map((_key, one) => memory.series.bytes[one * points + place] ?? 0)]) })} />
      </div>
      <ul class="legend">{memory.series.key.map((key, place) => <li key={key}><Swatch colour={colours[place] ?? ""} theme={theme} /> {shortened(key, 32)}</li>)}</ul>
      <Measured class="memory-chart" height={260}>
        {(width) => (
          <>
            <Chart label={`Live bytes over time, peak ${size(memory.peak_bytes)}`} width={width} height={260} theme={theme} options={options} data={data} onPoint={(index) => act.set({ at: memory.curve.ns[index] ?? 0 })} />
            <Cursor memory={memory} at={instant} width={width} theme={theme} />
          </>
        )}
      </Measured>
      <Alive {...props} at={instant} point={point} live={live} />
      <Addresses memory={memory} at={instant} theme={theme} act={act} />
      <Notes of={memory} />
    </div>
  );
}

/** Why there is no curve to draw: no allocation is known, or all that is known is the one that was refused. */
export function nothingHeld(memory: Pick<MemoryFacts, "curve" | "oom" | "device" | "peak_bytes">): string {
  if (Array.from(memory.curve.bytes).some((bytes) => bytes > 0)) return "";
  const request = memory.oom?.request as { readonly op?: string; readonly bytes?: number | null } | undefined;
  const peak = memory.peak_bytes > 0 ? ` Its peak was ${size(memory.peak_bytes)}.` : "";
  if (!request) return `No single allocation on ${shortened(memory.device, 60)} was recorded in this run.${peak}`;
  return `\`${shortened(request.op ?? "", 80)}\` asked for ${size(request.bytes)} on ${shortened(memory.device, 60)}, and was refused; no allocation before it was recorded.${peak}`;
}

const LEFT = 64;

/** Where the instant is that the table below is of, and what is marked: the peak, where memory ran out. */
function Cursor({ memory, at, width, theme }: { memory: MemoryFacts; at: number; width: number; theme: Theme }) {
  const [from, to] = [memory.curve.ns[0] ?? 0, memory.curve.ns[memory.curve.ns.length - 1] ?? 1];
  const x = (ns: number): number => LEFT + ((ns - from) / (to - from || 1)) * (width - LEFT - 16);
  return (
    <svg class="over" width={width} height="260" aria-hidden="true" font-size="12" font-family="system-ui, sans-serif">
      <line x1={x(at)} x2={x(at)} y1="8" y2="230" stroke={theme.text} stroke-width="1.5" />
      {memory.marks.map((mark, place) => {
        const colour = mark.kind === "oom" ? categoryColour("failure", theme) : theme.quiet;
        const right = x(mark.ns) > width - 220;
        return <g key={place}><path d={`M${x(mark.ns) - 4} 4h8l-4 7z`} fill={colour} />{mark.kind === "oom" && <line x1={x(mark.ns)} x2={x(mark.ns)} y1="8" y2="230" stroke={colour} stroke-dasharray="4 3" />}<text x={x(mark.ns) + (right ? -8 : 8)} y="12" text-anchor={right ? "end" : "start"} fill={colour}>{shortened(mark.label, 40)}</text></g>;
      })}
    </svg>
  );
}

const OWNERS: Readonly<Record<string, [string, string]>> = {
  variable: ["#5a84b8", "#5f8fc7"], feed: ["#d3a04f", "#c99a4c"], queue: ["#7a6ca8", "#9083c4"], constant: ["#9aa3ad", "#6f7882"],
  temporary: ["#a7b8a0", "#6f8a6c"], output: ["#7fb0a8", "#5f9c93"],
};

function ownerColour(key: string, theme: Theme): string {
  if (key === "(others)") return theme.dark ? "#4a5059" : "#cfd3d8";
  const known = OWNERS[key.toLowerCase()];
  return known ? known[theme.dark ? 1 : 0] : namedColour(key, theme);
}

function optionsOf(memory: MemoryFacts, colours: readonly string[], theme: Theme): Omit<uPlot.Options, "width" | "height"> {
  const stepped = uPlot.paths.stepped?.({ align: 1 });
  const ceiling = Math.max(memory.peak_bytes, memory.limit !== null && memory.limit < memory.peak_bytes * 1.5 ? memory.limit : 0) * 1.06 || 1;
  return {
    legend: { show: false },
    padding: [8, 16, 0, 0],
    cursor: { drag: { x: false, y: false }, y: false, points: { show: false } },
    scales: { x: { time: false }, y: { range: () => [0, ceiling] } },
    axes: axes(theme, tickLabel, (bytes) => size(bytes), LEFT).map((axis, place) => (place === 1 ? { ...axis, splits: () => sizeTicks(ceiling) } : axis)),
    series: [{}, ...[...colours].reverse().map((colour) => ({ stroke: colour, fill: colour, width: 0, points: { show: false }, ...(stepped ? { paths: stepped } : {}) }))],
    hooks: {
      draw: [
        (chart: uPlot) => {
          if (memory.limit === null || memory.limit > ceiling) return;
          const y = chart.valToPos(memory.limit, "y", true);
          chart.ctx.save();
          chart.ctx.strokeStyle = categoryColour("failure", theme);
          chart.ctx.setLineDash([6, 4]);
          chart.ctx.beginPath();
          chart.ctx.moveTo(chart.bbox.left, y);
          chart.ctx.lineTo(chart.bbox.left + chart.bbox.width, y);
          chart.ctx.stroke();
          chart.ctx.restore();
        },
      ],
    },
  };
}

/** The tensors alive at the instant: their bytes and the rest sum to the live bytes. */
function Alive({ memory, state, act, store, at, point, live }: PageProps & { readonly memory: MemoryFacts; readonly at: number; readonly point: number; readonly live: number }) {
  const asked = !memory.complete && store.source.follows ? store.ask<Instant>({ name: "instant", params: { run: runParam(state), device: memory.device, ns: at } }).value : undefined;
  const tensors = asked ? asked.rows : memory.tensors;
  const rows = useMemo(() => (asked ? Array.from({ length: asked.rows.bytes.length }, (_, row) => row) : aliveAt(memory.tensors, at)), [asked, memory, at]);
  const rest = asked ? asked.rest_bytes : (memory.rest?.[point] ?? 0);
  const end = memory.curve.ns[memory.curve.ns.length - 1] ?? 0;
  const columns = useMemo<ColumnOf[]>(() => [
    { id: "name", label: "tensor", wide: true, value: (row) => text(tensors.name, row), show: (row) => <Name of={text(tensors.name, row)} most={62} grows /> },
    { id: "bytes", label: "bytes", number: true, value: (row) => tensors.bytes[row] ?? 0, show: (row) => held(tensors.bytes[row]) },
    { id: "share", label: "share", number: true, value: (row) => (tensors.bytes[row] ?? 0) / (live || 1), show: (row) => <><Bar share={(tensors.bytes[row] ?? 0) / (live || 1)} /><span class="percent">{share((tensors.bytes[row] ?? 0) / (live || 1))}</span></> },
    { id: "kind", label: "owner", value: (row) => text(tensors.kind, row), show: (row) => shortened(text(tensors.kind, row), 24) },
    { id: "shape", label: "shape", value: (row) => text(tensors.shape, row), show: (row) => `${text(tensors.dtype, row)} ${shortened(text(tensors.shape, row), 40)}` },
    { id: "from_ns", label: "since", number: true, value: (row) => tensors.from_ns[row] ?? 0, show: (row) => time(tensors.from_ns[row]) },
    { id: "to_ns", label: "until", number: true, value: (row) => tensors.to_ns[row] ?? 0, show: (row) => ((tensors.to_ns[row] ?? Infinity) <= end ? time(tensors.to_ns[row]) : "the end") },
    { id: "line", label: "line", value: (row) => text(tensors.line, row), show: (row) => shortened(text(tensors.line, row), 36) },
  ], [tensors, live]);
  return (
    <section class="rows-box" aria-label="Tensors alive">
      <div class="bar-row"><h2>alive at {time(at)}: <b class="figure" data-testid="live" data-bytes={live}>{size(live)}</b> <span class="quiet">in {number(rows.length, "tensor")}{rest > 0 && <> and <span data-testid="rest" data-bytes={rest}>{size(rest)}</span> in others</>}</span></h2><span class="grow" />
        <Download name="alive" rows={() => tableRows(columns, sorted(rows, columns, state.sort))} /></div>
      <Table label="Tensors alive" columns={columns} count={rows.length} rows={rows} sort={state.sort || "-bytes"} onSort={(sort) => act.set({ sort })}
        chosen={(row) => state.select?.kind === "op" && state.select.name === opOf(text(tensors.name, row))} onChoose={(row) => act.select({ kind: "op", name: opOf(text(tensors.name, row)) })} />
    </section>
  );
}

/** The op that a tensor is of: `dense/MatMul:0` is of `dense/MatMul`. */
export const opOf = (tensor: string): string => tensor.replace(/:\d+$/, "");

export interface AddressMap {
  readonly boxes: readonly { readonly row: number; readonly x: number; readonly width: number }[];
  /** Stretches that are much longer than what lies there: drawn as a break, with their length. */
  readonly breaks: readonly { readonly x: number; readonly bytes: number }[];
  /** What lies free between the first and the last tensor, breaks left out. */
  readonly free: number;
}

const BREAK = 14;

/** Where in the address space the tensors of the instant lie. Gaps are to scale, but for those that would flatten all else. */
export function addressMap(tensors: Tensors, rows: readonly number[], width: number): AddressMap {
  const from = (row: number): number => tensors.address?.[row] ?? 0;
  const bytes = (row: number): number => tensors.bytes[row] ?? 0;
  const known = rows.filter((row) => from(row) > 0 && bytes(row) > 0).sort((one, other) => from(one) - from(other));
  if (known.length < 2) return { boxes: [], breaks: [], free: 0 };
  const used = known.reduce((sum, row) => sum + bytes(row), 0);
  const gaps: number[] = [];
  let end = from(known[0] ?? 0);
  let near = 0;
  let free = 0;
  for (const row of known) {
    const gap = Math.max(0, from(row) - end);
    gaps.push(gap);
    if (gap <= used / 4) free += gap;
    near += (gap <= used / 4 ? gap : 0) + Math.max(0, from(row) + bytes(row) - Math.max(end, from(row)));
    end = Math.max(end, from(row) + bytes(row));
  }
  const scale = Math.max(0, width - gaps.filter((gap) => gap > used / 4).length * BREAK) / (near || 1);
  const boxes: { row: number; x: number; width: number }[] = [];
  const breaks: { x: number; bytes: number }[] = [];
  let x = 0;
  end = from(known[0] ?? 0);
  known.forEach((row, place) => {
    const gap = gaps[place] ?? 0;
    if (gap > used / 4) {
      breaks.push({ x, bytes: gap });
      x += BREAK;
    } else x += gap * scale;
    // One that begins inside of another (a view of it) is drawn there.
    const inside = Math.max(0, end - from(row));
    boxes.push({ row, x: x - inside * scale, width: bytes(row) * scale });
    x += Math.max(0, bytes(row) - inside) * scale;
    end = Math.max(end, from(row) + bytes(row));
  });
  return { boxes, breaks, free };
}

function Addresses({ memory, at, theme, act }: { memory: MemoryFacts; at: number; theme: Theme; act: PageProps["act"] }) {
  const map = useMemo(() => (memory.tensors.address ? addressMap(memory.tensors, aliveAt(memory.tensors, at), 1000) : null), [memory, at]);
  if (!map?.boxes.length) return null;
  return (
    <section aria-label="Addresses">
      <h2>addresses <span class="quiet">of the same tensors, from the lowest to the highest{map.free > 0 && `; ${size(map.free)} free between them`}{map.breaks.length > 0 && `; ${number(map.breaks.length, "long gap")} left out`}</span></h2>
      <Measured class="addresses">{(width) => <AddressPicture {...{ memory, at, theme, act, width }} />}</Measured>
    </section>
  );
}

function AddressPicture({ memory, at, theme, act, width }: { memory: MemoryFacts; at: number; theme: Theme; act: PageProps["act"]; width: number }) {
  const { boxes, breaks } = addressMap(memory.tensors, aliveAt(memory.tensors, at), width);
  return (
    <svg width={width} height="24" role="img" aria-label="Where the tensors lie">
      <rect width={width} height="24" fill={theme.raised} />
      {breaks.map((one, place) => (
        <g key={place}><rect x={one.x} width={BREAK} height="24" fill={theme.ground}><title>{`${size(one.bytes)} between them`}</title></rect><path d={`M${one.x + 4} 21l3 -18m2 18l3 -18`} stroke={theme.quiet} pointer-events="none" /></g>
      ))}
      {boxes.map((box) => (
        <rect key={box.row} class="pick" x={box.x} y="0" width={Math.max(0.8, box.width)} height="24" fill={ownerColour(text(memory.tensors.kind, box.row), theme)} stroke={theme.ground} stroke-width={box.width > 3 ? 0.5 : 0} onClick={() => act.select({ kind: "op", name: opOf(text(memory.tensors.name, box.row)) })}>
          <title>{`${shortened(text(memory.tensors.name, box.row), 200)}: ${size(memory.tensors.bytes[box.row])}`}</title>
        </rect>
      ))}
    </svg>
  );
}

export const memory: Page = {
  id: "memory",
  label: "Memory",
  needs: (state) => ({ memory: { name: "memory", params: { run: runParam(state), device: state.device || undefined, by: state.owners } } }),
  View,
};
