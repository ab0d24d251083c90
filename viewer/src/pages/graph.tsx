// Graph: the dataflow graph, scopes folded, coloured by time, memory, device or what was measured.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Theme, amountColour, inkOn, namedColour } from "../colour.ts";
import { text } from "../data/frame.ts";
import type { GraphFacts, GraphNodes } from "../data/types.ts";
import { edgePath, layout } from "../draw/graph_layout.ts";
import { held, number, shortened, size, spent, time } from "../format.ts";
import { type Page, type PageProps, runParam } from "../page.ts";
import { Await, Empty, Notes } from "../parts/await.tsx";
import { Choice } from "../parts/choice.tsx";
import { Download } from "../parts/download.tsx";
import { Swatch } from "../parts/hatches.tsx";
import { Measured } from "../parts/measured.tsx";

const PAINTS = [["time", "time"], ["memory", "memory"], ["device", "device"], ["coverage", "what was measured"]] as const;
const HEIGHT = 38;

function View(props: PageProps) {
  const { state, act, data } = props;
  const parts = partsOf(state.scope, data.graph?.value as GraphFacts | undefined);
  return (
    <div class="graph-page">
      <div class="bar-row">
        <nav class="crumbs" aria-label="Scope">
          <button type="button" class="link" onClick={() => act.set({ scope: "/" })}>graph</button>
          {parts.map((part, place) => <span key={place}> / <button type="button" class="link" onClick={() => act.set({ scope: parts.slice(0, place + 1).join("/") })}>{shortened(part, 40)}</button></span>)}
        </nav>
        <span class="grow" />
        <Choice label="colour" of={PAINTS} value={state.paint} onChoose={(paint) => act.set({ paint })} />
        <Download name="graph" picture={() => document.querySelector("svg.graph")} {...rowsOf(data.graph?.value as GraphFacts | undefined)} />
      </div>
      <Await of={data.graph as never}>{(graph: GraphFacts) => <Scope {...props} graph={graph} />}</Await>
    </div>
  );
}

/** The names above what is shown: of a scope that was asked for, or of that at which the graph opens. */
export function partsOf(asked: string, graph: Pick<GraphFacts, "scope"> | undefined): string[] {
  return (asked || graph?.scope || "").split("/").filter(Boolean);
}

function rowsOf(graph: GraphFacts | undefined) {
  if (!graph) return {};
  const { nodes } = graph;
  return { rows: () => ({ columns: ["name", "kind", "type", "ops", "self_ns", "bytes", "device", "state"], rows: nodes.id.map((id, row) => [id, text(nodes.kind, row), text(nodes.type, row), nodes.ops[row] ?? 0, nodes.self_ns[row] ?? 0, nodes.bytes[row] ?? 0, text(nodes.device, row), text(nodes.state, row)]) }) };
}

/** A box of many: there is nothing of its own to select. */
const isOthers = (nodes: Partial<GraphNodes>, row: number): boolean => !!nodes.kind && text(nodes.kind, row) === "others";

/** Nodes of the scope and their neighbours outside, as one list. */
function placesOf(graph: GraphFacts) {
  const rows = (nodes: Partial<GraphNodes>, outside: boolean) => (nodes.id ?? []).map((id, row) => ({
    id, label: (outside && !isOthers(nodes, row) ? id : nodes.label?.[row]) ?? id, kind: isOthers(nodes, row) ? "others" : outside ? "outside" : nodes.kind ? text(nodes.kind, row) : "op", outside, type: nodes.type ? text(nodes.type, row) : "", ops: nodes.ops?.[row] ?? 0, ns: nodes.self_ns?.[row] ?? 0, bytes: nodes.bytes?.[row] ?? 0,
    device: nodes.device ? text(nodes.device, row) : "", state: nodes.state ? text(nodes.state, row) : "", detail: nodes.detail?.[row] ?? "", path: !!nodes.path?.[row],
  }));
  return [...rows(graph.nodes, false), ...rows(graph.outer ?? {}, true)];
}

type Node = ReturnType<typeof placesOf>[number];

/** How much it matters that an edge goes downwards: the critical path most, control edges least. */
const weightsOf = (nodes: readonly Node[], { edges }: GraphFacts): number[] =>
  Array.from({ length: edges.from.length }, (_, edge) => (nodes[edges.from[edge] ?? 0]?.path && nodes[edges.to[edge] ?? 0]?.path ? 1e6 : 0) + (edges.count[edge] ?? 1) * (edges.control[edge] ? 0.01 : 1));

const FEW = 4;

/** Which nodes are drawn: of those without a measurement and without an edge a few, of more only how many there are. */
export function drawnOf(nodes: readonly { readonly state: string; readonly kind: string }[], edges: { readonly from: ArrayLike<number>; readonly to: ArrayLike<number> }): { shown: number[]; left: Map<string, number> } {
  const touched = new Set([...Array.from(edges.from), ...Array.from(edges.to)]);
  const alone = new Map<string, number>();
  const idle = (node: { readonly state: string; readonly kind: string }, at: number): boolean => node.kind === "op" && !isMeasured(node.state) && !touched.has(at);
  nodes.forEach((node, at) => idle(node, at) && alone.set(node.state, (alone.get(node.state) ?? 0) + 1));
  const left = new Map([...alone].filter(([, count]) => count > FEW));
  return { shown: nodes.map((_, at) => at).filter((at) => !idle(nodes[at] as Node, at) || !left.has(nodes[at]?.state ?? "")), left };
}

const labelOf = (node: Node): string => shortened(node.label, 26);
const widthOf = (node: Node): number => Math.max(84, Math.min(230, Math.max(labelOf(node).length * 6.9, 60) + 26));
const isMeasured = (state: string): boolean => ["", "measured", "executed", "mixed"].includes(state);

function fillOf(node: Node, paint: PageProps["state"]["paint"], most: { ns: number; bytes: number }, theme: Theme): string {
  if (node.outside) return theme.ground;
  if (paint === "device") return node.device ? namedColour(node.device, theme) : theme.raised;
  if (paint === "coverage") return isMeasured(node.state) ? (theme.dark ? "#33404f" : "#d9e3ef") : namedColour(node.state, theme);
  return paint === "time" ? amountColour(node.ns / most.ns, theme, "time") : amountColour(node.bytes / most.bytes, theme, "memory");
}

function Scope({ graph, state, act, theme }: PageProps & { readonly graph: GraphFacts }) {
  const nodes = useMemo(() => placesOf(graph), [graph]);
  const { made, shown, left } = useMemo(() => {
    const drawn = drawnOf(nodes, graph.edges);
    const place = new Map(drawn.shown.map((node, at) => [node, at]));
    const edges = Array.from({ length: graph.edges.from.length }, (_, edge) => [place.get(graph.edges.from[edge] ?? 0) ?? 0, place.get(graph.edges.to[edge] ?? 0) ?? 0] as const);
    return { ...drawn, made: layout(drawn.shown.map((node) => ({ width: widthOf(nodes[node] as Node), height: HEIGHT })), edges, weightsOf(nodes, graph)) };
  }, [graph, nodes]);
  const most = useMemo(() => ({ ns: nodes.reduce((high, node) => Math.max(high, node.ns), 0) || 1, bytes: nodes.reduce((high, node) => Math.max(high, node.bytes), 0) || 1 }), [nodes]);
  const states = useMemo(() => [...new Set(nodes.map((node) => node.state))].filter((one) => one && !isMeasured(one)), [nodes]);
  const devices = useMemo(() => [...new Set(nodes.map((node) => node.device))].filter(Boolean), [nodes]);
  if (!nodes.length) return <Empty what="This scope has nothing in it." todo="Go up with the names above." />;
  const open = (node: Node): void => (node.kind === "scope" ? act.set({ scope: node.id }) : pick(node));
  const pick = (node: Node): void => { if (node.kind !== "others") act.select({ kind: node.kind === "scope" ? "layer" : "op", name: node.id }); };
  const chosen = (node: Node): boolean => !!state.select && (state.select.name === node.id || (node.kind === "scope" && state.select.kind === "op" && state.select.name.startsWith(`${node.id}/`)));
  return (
    <>
      <ul class="legend">
        {(state.paint === "time" || state.paint === "memory") && <li><span class={`ramp ${state.paint}`} aria-hidden="true" /> up to {state.paint === "time" ? time(most.ns) : size(most.bytes)}</li>}
        {state.paint === "device" && devices.slice(0, 8).map((device) => <li key={device}><Swatch colour={namedColour(device, theme)} theme={theme} /> {shortened(device, 30)}</li>)}
        {state.paint === "coverage" && states.map((one) => <li key={one} title={graph.states[one]}><Swatch colour={namedColour(one, theme)} theme={theme} /> {one}</li>)}
        <li><span class="outline path" aria-hidden="true" /> critical path</li>
        {states.length > 0 && <li><span class="outline dashed" aria-hidden="true" /> not measured: {states.slice(0, 5).join(", ")}</li>}
        <li class="quiet">{number(nodes.filter((node) => !node.outside).length, "node")}; a click selects, a double click opens a scope{[...left].map(([state, count]) => `; ${count} ${state} without an edge are not drawn`).join("")}</li>
      </ul>
      <Measured class="graph-box">
        {(width, height) => (
          <Canvas key={graph.scope} width={width} height={height} whole={[made.width, made.height]}>
            <Tips theme={theme} />
            <g fill="none">
              {made.edges.map((points, edge) => {
                const [from, to] = [graph.edges.from[edge] ?? 0, graph.edges.to[edge] ?? 0];
                const onPath = !!nodes[from]?.path && !!nodes[to]?.path;
                const near = !!state.select && (state.select.name === nodes[from]?.id || state.select.name === nodes[to]?.id);
                return <path key={edge} d={edgePath(points)} marker-end={`url(#tip-${near ? "near" : onPath ? "path" : "plain"})`} stroke={near ? theme.accent : onPath ? theme.text : theme.dark ? "#5a636e" : "#b4bac1"} stroke-width={onPath ? 2 : Math.min(4, 0.8 + Math.log2(1 + (graph.edges.count[edge] ?? 1)) / 2)} stroke-dasharray={graph.edges.control[edge] ? "3 3" : undefined}><title>{`${shortened(nodes[from]?.id ?? "", 200)} → ${shortened(nodes[to]?.id ?? "", 200)}${graph.edges.bytes[edge] ? `, ${size(graph.edges.bytes[edge])}` : ""}`}</title></path>;
              })}
            </g>
            {made.nodes.map((place, at) => {
              const node = nodes[shown[at] ?? 0] as Node;
              const fill = fillOf(node, state.paint, most, theme);
              const ink = inkOn(fill);
              const missing = !isMeasured(node.state);
              const detail = node.outside ? "outside" : state.paint === "memory" ? held(node.bytes) : state.paint === "device" ? shortened(node.device, 20) : node.ns ? spent(node.ns) : node.kind === "scope" ? number(node.ops, "op") : missing ? node.state : shortened(node.type, 24);
              return (
                <g key={node.id} data-node={node.id} class="pick" tabIndex={0} role="button" aria-pressed={chosen(node)} aria-label={`${node.kind} ${shortened(node.id, 100)}, ${spent(node.ns)}${missing ? `, ${node.state}` : ""}`}
                  transform={`translate(${place.x - place.width / 2} ${place.y - place.height / 2})`}
                  onClick={() => pick(node)} onDblClick={() => open(node)} onKeyDown={(event) => event.key === "Enter" && open(node)}>
                  <title>{`${shortened(node.id, 300)}\n${node.kind === "op" ? shortened(node.type, 80) : number(node.ops, "op")}, ${spent(node.ns)}${missing ? `\n${node.state}: ${shortened(node.detail, 200)}` : ""}`}</title>
                  {node.kind === "scope" && <rect x="3" y="3" width={place.width} height={place.height} rx="4" fill={fill} stroke={theme.line} />}
                  <rect width={place.width} height={place.height} rx="4" fill={fill} stroke={chosen(node) ? theme.accent : node.path ? theme.text : theme.dark ? "#5a636e" : "#b4bac1"} stroke-width={chosen(node) ? 3 : node.path ? 2 : 1} stroke-dasharray={missing || node.outside ? "4 3" : undefined} />
                  <text x={place.width / 2} y="16" text-anchor="middle" fill={ink} font-weight={node.kind === "scope" ? 600 : 400}>{labelOf(node)}</text>
                  <text x={place.width / 2} y="30" text-anchor="middle" fill={ink} opacity="0.72" font-size="11">{detail}</text>
                </g>
              );
            })}
          </Canvas>
        )}
      </Measured>
      <Notes of={graph} />
    </>
  );
}

/** Which way edges go: cycles among scopes have some that go upwards. */
function Tips({ theme }: { theme: Theme }) {
  const colours = { near: theme.accent, path: theme.text, plain: theme.dark ? "#5a636e" : "#b4bac1" };
  return (
    <defs>{Object.entries(colours).map(([name, colour]) => (
      <marker key={name} id={`tip-${name}`} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0.8L8 4L0 7.2z" fill={colour} /></marker>
    ))}</defs>
  );
}

/** An SVG that is moved by dragging and zoomed by the wheel; at first all of it is in sight, and legible. */
function Canvas({ width, height, whole, children }: { width: number; height: number; whole: readonly [number, number]; children: preact.ComponentChildren }) {
  const fit = (): [number, number, number] => {
    const scale = Math.min(width > 1800 ? 1.6 : 1.15, Math.max(0.4, Math.min((width - 40) / (whole[0] || 1), (height - 40) / (whole[1] || 1))));
    return [Math.max(20, (width - whole[0] * scale) / 2), Math.max(20, (height - whole[1] * scale) / 2), scale];
  };
  const [[x, y, scale], place] = useState<[number, number, number]>(fit);
  const box = useRef<SVGSVGElement>(null);
  const held = useRef<[number, number, number, number] | null>(null);
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const wheel = (event: WheelEvent): void => {
      event.preventDefault();
      const factor = Math.exp(-event.deltaY * 0.0016);
      place(([left, top, now]) => {
        const next = Math.min(3, Math.max(0.08, now * factor));
        return [event.offsetX - ((event.offsetX - left) / now) * next, event.offsetY - ((event.offsetY - top) / now) * next, next];
      });
    };
    const press = (event: KeyboardEvent): void => {
      if (event.target instanceof HTMLInputElement || event.ctrlKey || event.metaKey) return;
      const by: Record<string, [number, number]> = { a: [80, 0], d: [-80, 0], ArrowLeft: [80, 0], ArrowRight: [-80, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
      const move = by[event.key];
      if (move) place(([left, top, now]) => [left + move[0], top + move[1], now]);
      else if (event.key === "w" || event.key === "s") place(([left, top, now]) => {
        const next = Math.min(3, Math.max(0.08, now * (event.key === "w" ? 1.3 : 1 / 1.3)));
        return [width / 2 - ((width / 2 - left) / now) * next, height / 2 - ((height / 2 - top) / now) * next, next];
      });
      else if (event.key === "f") place(fit());
    };
    element.addEventListener("wheel", wheel, { passive: false });
    addEventListener("keydown", press);
    return () => {
      element.removeEventListener("wheel", wheel);
      removeEventListener("keydown", press);
    };
  }, [width, height, whole[0], whole[1]]);
  return (
    <svg ref={box} class="graph" width={width} height={height} font-family="system-ui, sans-serif" font-size="12" role="group" aria-label="Dataflow graph"
      onPointerDown={(event) => { held.current = [event.clientX, event.clientY, x, y]; }}
      onPointerMove={(event) => { const from = held.current; if (from && event.buttons) place([from[2] + event.clientX - from[0], from[3] + event.clientY - from[1], scale]); }}
      onPointerUp={() => { held.current = null; }}>
      <g transform={`translate(${x} ${y}) scale(${scale})`}>{children}</g>
    </svg>
  );
}

export const graph: Page = { id: "graph", label: "Graph", needs: (state) => ({ graph: { name: "graph", params: { run: runParam(state), scope: state.scope } } }), View };
