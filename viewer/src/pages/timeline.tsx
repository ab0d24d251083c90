// Timeline: lanes of devices and threads on one axis of time, with memory below.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { MEANINGS, categoryColour } from "../colour.ts";
import type { Edges, RangeSum, Tile, TimelineFacts } from "../data/types.ts";
import { type View as Span, moved, zoomed } from "../draw/axis.ts";
import { type Patterns, patterns } from "../draw/hatch.ts";
import { type TilePlace, pieces } from "../draw/tiles.ts";
import { GUTTER, type Pointed, type Scene, coloursOf, drawTimeline, geometry, nsAt, pointed, sumRange } from "../draw/timeline.ts";
import { number, share, shortened, spent, time, whole } from "../format.ts";
import { type Page, type PageProps, runParam } from "../page.ts";
import { Await, Notes } from "../parts/await.tsx";
import { Choice } from "../parts/choice.tsx";
import { Download } from "../parts/download.tsx";
import { Swatch } from "../parts/hatches.tsx";
import { Measured } from "../parts/measured.tsx";
import { Name } from "../parts/name.tsx";

const COLOURS = [["category", "meaning"], ["type", "op type"], ["layer", "layer"], ["device", "device"]] as const;

const runOf = (state: PageProps["state"]): string | undefined => (state.run === "all" ? "all" : runParam(state));

function View(props: PageProps) {
  return <Await of={props.data.timeline as never}>{(facts: TimelineFacts) => <Lanes {...props} facts={facts} />}</Await>;
}

function Lanes(props: PageProps & { readonly facts: TimelineFacts }) {
  const { facts, state, act, theme } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const legend = useMemo(() => legendOf(facts, state.colour, theme), [facts, state.colour, theme]);
  return (
    <div class="timeline-page">
      <div class="bar-row">
        <Choice label="colour" of={COLOURS} value={state.colour} onChoose={(colour) => act.set({ colour })} />
        <ul class="legend">{legend.map((one) => <li key={one.label}><Swatch theme={theme} {...(one.category ? { category: one.category } : { colour: one.colour })} /> {shortened(one.label, 28)}</li>)}{facts.path && <li><span class="path-sign" aria-hidden="true" /> critical path {time(facts.path.length_ns)}</li>}</ul>
        <span class="grow" />
        <span class="quiet">{number(facts.ops, "op")} in {time(facts.to_ns - facts.from_ns)}</span>
        <Download name="timeline" picture={() => canvas.current} />
      </div>
      <Measured class="timeline-box">{(width, height) => <Picture {...props} canvas={canvas} width={width} height={height} />}</Measured>
      {state.range && <RangeTable {...props} />}
      <Notes of={facts} />
    </div>
  );
}

interface Legend {
  readonly label: string;
  readonly category?: string;
  readonly colour: string;
}

/** What the colours mean that are on screen: the meanings, or the busiest names. */
export function legendOf(facts: TimelineFacts, by: PageProps["state"]["colour"], theme: PageProps["theme"]): Legend[] {
  if (by === "category") {
    return facts.categories.filter((one) => one in MEANINGS).map((category) => ({ label: MEANINGS[category as keyof typeof MEANINGS].label, category, colour: categoryColour(category, theme) }));
  }
  const colours = coloursOf(facts, theme);
  if (by === "device") return [...new Map(facts.lanes.map((lane) => [lane.device, { label: lane.device, colour: colours.lane.get(lane.id) ?? "" }])).values()].slice(0, 10);
  const names = by === "type" ? facts.types : facts.layers;
  return names.slice(0, 10).map((label, code) => ({ label: label || "(none)", colour: (by === "type" ? colours.type : colours.layer)[code] ?? "" }));
}

type PictureProps = PageProps & { readonly facts: TimelineFacts; readonly canvas: { current: HTMLCanvasElement | null }; readonly width: number; readonly height: number };

/** The canvas, and what the mouse and keys do on it. */
function Picture({ facts, state, act, theme, store, canvas, width, height }: PictureProps) {
  const [scroll, setScroll] = useState(0);
  const [hover, setHover] = useState<{ x: number; y: number; hit: Pointed } | null>(null);
  const hatch = useRef<{ dark: boolean; made: Patterns } | null>(null);
  const drag = useRef<{ kind: "pan" | "range" | "strip"; x: number; y: number; view: Span; scroll: number; moved: boolean; ns: number } | null>(null);
  const run = runOf(state);
  const view: Span = useMemo(() => {
    const [from, to] = state.view ?? [facts.from_ns, facts.to_ns];
    return zoomed({ from, to: Math.max(to, from + 1) }, (from + to) / 2, 1, facts.from_ns, facts.to_ns);
  }, [state.view, facts]);
  const place = geometry(facts, width, height, scroll);
  const look = ({ level, index }: TilePlace): Tile | undefined => store.ask<Tile>({ name: "tile", params: { run, level, index } }).value;
  const peek = ({ level, index }: TilePlace): Tile | undefined => store.peek<Tile>({ name: "tile", params: { run, level, index } });
  const drawn = pieces(facts, view, place.plotWidth, look, peek);
  const edges = state.select?.kind === "op" && state.select.row !== undefined && run !== "all" ? (store.ask<Edges>({ name: "edges", params: { run, row: state.select.row } }).value ?? null) : null;
  const hit = hover?.hit;
  const scene: Scene = {
    facts, pieces: drawn, place, view, theme, patterns: hatch.current?.made ?? null, colour: state.colour, select: state.select, range: state.range, edges,
    hover: hit?.kind === "box" ? { lane: hit.tile.boxes.lane[hit.index] ?? -1, row: hit.tile.boxes.row[hit.index] ?? -1 } : null,
  };
  const latest = useRef(scene);
  latest.current = scene;

  useEffect(() => {
    const frame = requestAnimationFrame(() => {
      const element = canvas.current;
      const context = element?.getContext("2d");
      if (!element || !context) return;
      const dense = devicePixelRatio || 1;
      if (element.width !== Math.round(width * dense) || element.height !== Math.round(height * dense)) {
        element.width = Math.round(width * dense);
        element.height = Math.round(height * dense);
      }
      context.setTransform(dense, 0, 0, dense, 0, 0);
      if (hatch.current?.dark !== theme.dark) hatch.current = { dark: theme.dark, made: patterns(context, theme.dark ? "rgba(0,0,0,0.4)" : "rgba(255,255,255,0.55)") };
      drawTimeline(context, { ...latest.current, patterns: hatch.current.made });
      // For whoever measures: how many pictures there were, and how long the last one took.
      element.dataset.frames = String(Number(element.dataset.frames ?? 0) + 1);
    });
    return () => cancelAnimationFrame(frame);
  });

  const show = (next: Span): void => act.set({ view: [next.from, next.to] }, true);
  const least = facts.from_ns;
  const most = facts.to_ns;

  useEffect(() => {
    const element = canvas.current;
    if (!element) return undefined;
    const wheel = (event: WheelEvent): void => {
      event.preventDefault();
      const { view: now, place: at } = latest.current;
      const across = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
      const delta = event.deltaMode === 1 ? 16 : 1;
      if (event.ctrlKey || (!across && event.offsetX >= GUTTER && event.offsetY < at.lanesBottom)) {
        show(zoomed(now, nsAt(Math.max(event.offsetX, GUTTER), now, at), Math.exp(event.deltaY * delta * 0.0022), least, most));
      } else if (across) show(moved(now, (((event.deltaX || event.deltaY) * delta) / at.plotWidth) * (now.to - now.from), least, most));
      else setScroll((y) => Math.min(Math.max(0, y + event.deltaY * delta), Math.max(0, at.lanesHeight - (at.lanesBottom - at.lanesTop))));
    };
    element.addEventListener("wheel", wheel, { passive: false });
    return () => element.removeEventListener("wheel", wheel);
  }, [facts]);

  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      if (event.target instanceof HTMLInputElement || event.ctrlKey || event.metaKey || event.altKey) return;
      const { view: now, place: at } = latest.current;
      const span = now.to - now.from;
      const middle = (now.from + now.to) / 2;
      const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
      if (key === "w") show(zoomed(now, middle, 0.7, least, most));
      else if (key === "s") show(zoomed(now, middle, 1 / 0.7, least, most));
      else if (key === "a" || key === "ArrowLeft") show(moved(now, -span * 0.15, least, most));
      else if (key === "d" || key === "ArrowRight") show(moved(now, span * 0.15, least, most));
      else if (key === "ArrowDown") setScroll((y) => Math.min(y + 36, Math.max(0, at.lanesHeight - (at.lanesBottom - at.lanesTop))));
      else if (key === "ArrowUp") setScroll((y) => Math.max(0, y - 36));
      else if (key === "f") act.set({ view: fit(latest.current) });
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [facts]);

  const at = (event: MouseEvent): [number, number] => {
    const box = canvas.current?.getBoundingClientRect();
    return [event.clientX - (box?.left ?? 0), event.clientY - (box?.top ?? 0)];
  };
  const down = (event: PointerEvent): void => {
    if (event.button !== 0) return;
    const [x, y] = at(event);
    const found = pointed(scene, x, y);
    canvas.current?.setPointerCapture(event.pointerId);
    const kind = found.kind === "ruler" ? "range" : found.kind === "strip" ? "strip" : "pan";
    drag.current = { kind, x, y, view, scroll: place.scroll, moved: false, ns: nsAt(x, view, place) };
    if (kind === "strip") centre(x);
  };
  const centre = (x: number): void => {
    const middle = least + ((x - GUTTER) / place.plotWidth) * (most - least);
    show(moved({ from: middle - (view.to - view.from) / 2, to: middle + (view.to - view.from) / 2 }, 0, least, most));
  };
  const move = (event: PointerEvent): void => {
    const [x, y] = at(event);
    const held = drag.current;
    if (!held) {
      setHover({ x, y, hit: pointed(scene, x, y) });
      return;
    }
    if (Math.abs(x - held.x) + Math.abs(y - held.y) > 3) held.moved = true;
    if (!held.moved) return;
    if (held.kind === "strip") centre(x);
    else if (held.kind === "range") {
      const ns = Math.min(Math.max(nsAt(x, held.view, place), least), most);
      act.set({ range: held.ns < ns ? [held.ns, ns] : [ns, held.ns] }, true);
    } else {
      show(moved(held.view, ((held.x - x) / place.plotWidth) * (held.view.to - held.view.from), least, most));
      setScroll(Math.max(0, held.scroll + held.y - y));
    }
  };
  const up = (event: PointerEvent): void => {
    const held = drag.current;
    drag.current = null;
    if (!held || held.moved || held.kind === "strip") return;
    const [x, y] = at(event);
    const found = pointed(scene, x, y);
    if (found.kind === "box") {
      const { boxes, names } = found.tile;
      act.select({ kind: "op", name: names[boxes.node[found.index] ?? 0] ?? "", row: boxes.row[found.index] ?? 0 });
    } else if (found.kind === "memory" && run !== "all") act.set({ page: "memory", at: Math.round(found.ns) });
    else if (found.kind === "ruler") act.set({ range: null });
  };
  return (
    <>
      <canvas ref={canvas} class="timeline" style={{ width: `${width}px`, height: `${height}px` }} tabIndex={0} role="img"
        aria-label={`Timeline of ${number(facts.ops, "op")} on ${number(facts.lanes.length, "lane")}; W A S D move and zoom, F fits the selection`}
        data-lanes={facts.lanes.length} data-boxes={drawn.reduce((sum, piece) => sum + piece.tile.boxes.lane.length, 0)}
        onPointerDown={down} onPointerMove={move} onPointerUp={up} onPointerLeave={() => setHover(null)} onDblClick={() => act.set({ view: fit(scene) })} />
      {hit?.kind === "box" && hover && !drag.current && <Tip hit={hit} x={hover.x} y={hover.y} width={width} facts={facts} />}
    </>
  );
}

/** What F shows: the selected op with as much again on either side, the range, or the whole run. */
export function fit(scene: Pick<Scene, "select" | "range" | "pieces">): [number, number] | null {
  if (scene.range) return [scene.range[0], scene.range[1]];
  const select = scene.select;
  if (select?.kind !== "op") return null;
  for (const { tile } of scene.pieces) {
    const node = tile.names.indexOf(select.name);
    for (let index = 0; index < tile.boxes.lane.length; index += 1) {
      if (select.row === undefined ? tile.boxes.node[index] !== node : tile.boxes.row[index] !== select.row) continue;
      const start = tile.from_ns + (tile.boxes.start[index] ?? 0);
      const long = Math.max(tile.boxes.ns[index] ?? 0, 50);
      return [start - long, start + 2 * long];
    }
  }
  return null;
}

function Tip({ hit, x, y, width, facts }: { hit: Extract<Pointed, { kind: "box" }>; x: number; y: number; width: number; facts: TimelineFacts }) {
  const { boxes, names, from_ns } = hit.tile;
  const at = hit.index;
  const right = x > width - 340;
  return (
    <div class="tip" style={{ top: `${y + 14}px`, ...(right ? { right: `${width - x + 8}px` } : { left: `${x + 12}px` }) }} role="tooltip">
      <b>{shortened(names[boxes.node[at] ?? 0] ?? "", 70)}</b>
      <span><b class="figure">{time(boxes.ns[at])}</b> {shortened(facts.types[boxes.type[at] ?? 0] ?? "", 40)} · {facts.categories[boxes.category[at] ?? 0]}</span>
      <span class="quiet">from {time(from_ns + (boxes.start[at] ?? 0))}</span>
    </div>
  );
}

/** What lies in the measured range, summed by type. */
function RangeTable({ facts, state, act, store }: PageProps & { readonly facts: TimelineFacts }) {
  const [from, to] = state.range ?? [0, 1];
  const run = runOf(state);
  const asked = store.source.follows ? store.ask<RangeSum>({ name: "range", params: { run, from: Math.round(from), to: Math.round(to) } }) : null;
  const peek = ({ level, index }: TilePlace): Tile | undefined => store.peek<Tile>({ name: "tile", params: { run, level, index } });
  const rows = asked ? (asked.value?.rows.map((row) => ({ key: row.key, calls: row.calls, ns: row.self_ns, share: row.share })) ?? [])
    : sumRange(facts, pieces(facts, { from, to }, 1200, peek, peek), from, to).map((row) => ({ key: row.key, calls: row.calls, ns: row.total_ns, share: Number.NaN }));
  return (
    <section class="range" aria-label="What lies in the range">
      <h2>{time(to - from)} <span class="quiet">from {time(from)}{asked ? asked.value && `, ${number(asked.value.ops, "op")}` : ", of what is drawn"}</span>
        <Download name="range" rows={() => ({ columns: ["type", "calls", "ns"], rows: rows.map((row) => [row.key, row.calls, row.ns]) })} />
        <button type="button" class="plain close" aria-label="Clear the range" onClick={() => act.set({ range: null })}>✕</button></h2>
      <table class="short"><tbody>{rows.slice(0, 8).map((row) => (
        <tr key={row.key} class="pick" onClick={() => act.select({ kind: "type", name: row.key })}><td><Name of={row.key} most={40} /></td><td class="number">{whole(row.calls)}</td><td class="number">{spent(row.ns)}</td><td class="number">{Number.isNaN(row.share) ? "" : share(row.share)}</td></tr>
      ))}</tbody></table>
      {asked?.failure && <p class="quiet">{asked.failure.what}</p>}
    </section>
  );
}

export const timeline: Page = { id: "timeline", label: "Timeline", needs: (state) => ({ timeline: { name: "timeline", params: { run: runOf(state) } } }), View };
