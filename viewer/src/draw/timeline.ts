// The timeline: functions of (context, data, view). What is where is worked out by `geometry`, without a
// context; drawing and pointing both go by it.
import { type Theme, categoryColour, inkOn, meaning, namedColour } from "../colour.ts";
import { text } from "../data/frame.ts";
import type { Edges, Tile, TimelineFacts } from "../data/types.ts";
import { lastPart, shortened, size, time } from "../format.ts";
import type { Selection, State } from "../state.ts";
import { type View, tickLabel, ticks } from "./axis.ts";
import type { Patterns } from "./hatch.ts";
import type { Piece } from "./tiles.ts";

export const GUTTER = 168;
export const STRIP = 30;
export const RULER = 22;
export const MARKS = 18;
/** How high a row of boxes is: what fits, within what reads well. */
const ROWS = { least: 18, most: 34 } as const;
const LANE_GAP = 5;
const GROUP = 22;
/** How high the memory track is; on a tall screen it takes a share of it rather than leave it empty. */
const MEMORY = { least: 74, most: 190, share: 0.32 } as const;

export interface LaneRow {
  readonly lane: number;
  /** From the top of all lanes, before scrolling. */
  readonly y: number;
  readonly height: number;
  readonly label: string;
}

/** Where everything is, in CSS pixels from the canvas's top left. */
export interface Geometry {
  readonly width: number;
  readonly height: number;
  readonly plotWidth: number;
  readonly stripTop: number;
  readonly rulerTop: number;
  readonly marksTop: number;
  readonly lanesTop: number;
  readonly lanesBottom: number;
  readonly memoryTop: number;
  readonly row: number;
  readonly lanesHeight: number;
  readonly scroll: number;
  readonly rows: readonly LaneRow[];
  readonly groups: readonly { readonly label: string; readonly y: number }[];
  readonly rowOfLane: ReadonlyMap<number, LaneRow>;
}

/** Lanes grouped by device, then thread, one below the other. */
export function geometry(facts: TimelineFacts, width: number, height: number, scroll: number): Geometry {
  const marked = facts.marks.label.length > 0;
  const lanesTop = STRIP + RULER + (marked ? MARKS : 4);
  const boxes = facts.lanes.reduce((sum, lane) => sum + Math.max(1, lane.rows), 0);
  const titles = new Set(facts.lanes.map((lane) => lane.group)).size;
  const fixed = titles * GROUP + facts.lanes.length * LANE_GAP;
  const room = height - lanesTop - (facts.memory ? MEMORY.least : 0) - fixed;
  const rowHeight = Math.min(ROWS.most, Math.max(ROWS.least, Math.floor(room / Math.max(1, boxes))));
  const rows: LaneRow[] = [];
  const groups: { label: string; y: number }[] = [];
  let y = 0;
  let group: string | undefined;
  for (const lane of facts.lanes) {
    if (lane.group !== group) {
      group = lane.group;
      groups.push({ label: group, y });
      y += GROUP;
    }
    const high = Math.max(1, lane.rows) * rowHeight;
    rows.push({ lane: lane.id, y, height: high, label: lane.name });
    y += high + LANE_GAP;
  }
  const memory = facts.memory ? Math.min(Math.max(MEMORY.most, height * MEMORY.share), Math.max(MEMORY.least, height - lanesTop - y - 24)) : 0;
  const lanesBottom = Math.max(lanesTop + rowHeight, height - memory);
  const most = Math.max(0, y - (lanesBottom - lanesTop));
  return {
    width,
    height,
    plotWidth: Math.max(1, width - GUTTER),
    stripTop: 0,
    rulerTop: STRIP,
    marksTop: STRIP + RULER,
    lanesTop,
    lanesBottom,
    memoryTop: lanesBottom + 4,
    row: rowHeight,
    lanesHeight: y,
    scroll: Math.min(Math.max(0, scroll), most),
    rows,
    groups,
    rowOfLane: new Map(rows.map((row) => [row.lane, row])),
  };
}

export interface Scene {
  readonly facts: TimelineFacts;
  readonly pieces: readonly Piece[];
  readonly place: Geometry;
  readonly view: View;
  readonly theme: Theme;
  readonly patterns: Patterns | null;
  readonly colour: State["colour"];
  readonly select: Selection | null;
  readonly range: readonly [number, number] | null;
  readonly hover: { readonly lane: number; readonly row: number } | null;
  readonly edges: Edges | null;
}

export const xOf = (ns: number, view: View, place: Geometry): number =>
  GUTTER + ((ns - view.from) / (view.to - view.from)) * place.plotWidth;

export const nsAt = (x: number, view: View, place: Geometry): number =>
  view.from + ((x - GUTTER) / place.plotWidth) * (view.to - view.from);

/** The top of a box in its lane, on the canvas. */
function top(place: Geometry, lane: number, depth: number): number | null {
  const row = place.rowOfLane.get(lane);
  if (!row) return null;
  return place.lanesTop + row.y - place.scroll + Math.min(depth, row.height / place.row - 1) * place.row;
}

export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** Where box `index` of a tile is; null where it is not in view. */
export function boxAt(scene: Pick<Scene, "place" | "view">, piece: Piece, index: number): Box | null {
  const { place, view } = scene;
  const { boxes, from_ns } = piece.tile;
  const start = from_ns + (boxes.start[index] ?? 0);
  const end = Math.min(start + (boxes.ns[index] ?? 0), piece.to, view.to);
  const begin = Math.max(start, piece.from, view.from);
  if (end < begin || start >= view.to || end <= view.from) return null;
  const y = top(place, boxes.lane[index] ?? 0, boxes.depth[index] ?? 0);
  if (y === null || y + place.row < place.lanesTop || y > place.lanesBottom) return null;
  const x = xOf(begin, view, place);
  return { x, y, width: Math.max(xOf(end, view, place) - x, 0.7), height: place.row - 2 };
}

interface Colours {
  readonly type: readonly string[];
  readonly category: readonly string[];
  readonly layer: readonly string[];
  readonly lane: ReadonlyMap<number, string>;
}

const known = new WeakMap<TimelineFacts, Map<boolean, Colours>>();

/** Colours by code, worked out once for a run and a theme. */
export function coloursOf(facts: TimelineFacts, theme: Theme): Colours {
  const themes = known.get(facts) ?? new Map<boolean, Colours>();
  known.set(facts, themes);
  let made = themes.get(theme.dark);
  if (!made) {
    made = {
      type: facts.types.map((type) => namedColour(type, theme)),
      category: facts.categories.map((category) => categoryColour(category, theme)),
      layer: facts.layers.map((layer) => namedColour(layer, theme)),
      lane: new Map(facts.lanes.map((lane) => [lane.id, namedColour(lane.device, theme)])),
    };
    themes.set(theme.dark, made);
  }
  return made;
}

const OTHER = "#888888";

function colourOf(colours: Colours, by: State["colour"], type: number, category: number, layer: number, lane: number): string {
  if (by === "type") return colours.type[type] ?? OTHER;
  if (by === "layer") return colours.layer[layer] ?? OTHER;
  if (by === "device") return colours.lane.get(lane) ?? OTHER;
  return colours.category[category] ?? OTHER;
}

/** Everything, on a context scaled to CSS pixels. */
export function drawTimeline(context: CanvasRenderingContext2D, scene: Scene): void {
  const { place, theme } = scene;
  context.fillStyle = theme.ground;
  context.fillRect(0, 0, place.width, place.height);
  context.font = theme.font;
  context.textBaseline = "middle";
  drawStrip(context, scene);
  drawRuler(context, scene);
  clipped(context, GUTTER, place.lanesTop, place.plotWidth, place.lanesBottom - place.lanesTop, () => {
    drawLanes(context, scene);
    drawBoxes(context, scene);
    drawMarkLines(context, scene);
    drawTransfers(context, scene);
    drawPath(context, scene);
    drawEdges(context, scene);
  });
  drawMarks(context, scene);
  drawGutter(context, scene);
  drawMemory(context, scene);
  drawRange(context, scene);
}

function clipped(context: CanvasRenderingContext2D, x: number, y: number, width: number, height: number, draw: () => void): void {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  draw();
  context.restore();
}

/** The thin strip of the whole run, with the part that is in view. */
function drawStrip(context: CanvasRenderingContext2D, scene: Scene): void {
  const { facts, place, theme, view } = scene;
  const { busy, type, columns } = facts.overview;
  const colours = coloursOf(facts, theme);
  let most = 1;
  for (let column = 0; column < columns; column += 1) most = Math.max(most, busy[column] ?? 0);
  const wide = place.plotWidth / columns;
  const floor = STRIP - 5;
  for (let column = 0; column < columns; column += 1) {
    const high = ((busy[column] ?? 0) / most) * (floor - 4);
    if (high <= 0) continue;
    context.fillStyle = scene.colour === "type" ? (colours.type[type[column] ?? 0] ?? OTHER) : theme.dark ? "#56606c" : "#b4bcc6";
    // From pixel to pixel: edges between them would show as stripes.
    const left = Math.floor(GUTTER + column * wide);
    context.fillRect(left, floor - high, Math.max(1, Math.floor(GUTTER + (column + 1) * wide) - left), high);
  }
  const span = facts.to_ns - facts.from_ns;
  const from = GUTTER + ((view.from - facts.from_ns) / span) * place.plotWidth;
  const to = GUTTER + ((view.to - facts.from_ns) / span) * place.plotWidth;
  context.fillStyle = theme.dark ? "rgba(0,0,0,0.45)" : "rgba(253,253,252,0.72)";
  context.fillRect(GUTTER, 0, from - GUTTER, floor);
  context.fillRect(to, 0, place.width - to, floor);
  if (view.to - view.from < span * 0.999) {
    context.strokeStyle = theme.accent;
    context.strokeRect(from + 0.5, 1.5, Math.max(2, to - from - 1), floor - 2);
  }
  context.fillStyle = theme.quiet;
  context.textAlign = "left";
  context.fillText("whole run", 12, STRIP / 2 - 2);
}

function drawRuler(context: CanvasRenderingContext2D, scene: Scene): void {
  const { place, theme, view } = scene;
  const marks = ticks(view, place.plotWidth);
  const step = marks.length > 1 ? (marks[1] ?? 0) - (marks[0] ?? 0) : view.to - view.from;
  context.fillStyle = theme.line;
  context.fillRect(GUTTER, place.rulerTop + RULER - 1, place.plotWidth, 1);
  context.textAlign = "left";
  for (const ns of marks) {
    const x = xOf(ns, view, place);
    context.fillStyle = theme.line;
    context.fillRect(Math.round(x), place.rulerTop + RULER - 6, 1, 6);
    context.fillStyle = theme.faint;
    context.fillRect(Math.round(x), place.lanesTop, 1, place.height - place.lanesTop);
    const label = tickLabel(ns, step, marks.at(-1));
    if (x + 6 + context.measureText(label).width > place.width) continue;
    context.fillStyle = theme.quiet;
    context.fillText(label, x + 4, place.rulerTop + RULER / 2 - 1);
  }
}

function drawLanes(context: CanvasRenderingContext2D, scene: Scene): void {
  const { place, theme } = scene;
  for (const row of place.rows) {
    const y = place.lanesTop + row.y - place.scroll;
    if (y + row.height < place.lanesTop || y > place.lanesBottom) continue;
    context.fillStyle = theme.dark ? "rgba(255,255,255,0.025)" : "rgba(20,30,40,0.025)";
    context.fillRect(GUTTER, y - 1, place.plotWidth, row.height);
  }
}

const widths = new Map<string, number>();

function widthOf(context: CanvasRenderingContext2D, label: string): number {
  let width = widths.get(label);
  if (width === undefined) {
    if (widths.size > 20_000) widths.clear();
    width = context.measureText(label).width;
    widths.set(label, width);
  }
  return width;
}

/** The longest of a name's forms that fits: all of it, its last part, nothing. Never a part of a word. */
export function labelFor(name: string, room: number, measure: (label: string) => number): string {
  if (room < 16) return "";
  for (const label of [shortened(name, 200), shortened(lastPart(name), 100)]) {
    // No letter is narrower than three pixels, so most are refused without measuring.
    if (label.length * 3 <= room && measure(label) <= room) return label;
  }
  return "";
}

function drawBoxes(context: CanvasRenderingContext2D, scene: Scene): void {
  const { facts, place, theme, view, select } = scene;
  const colours = coloursOf(facts, theme);
  const perNs = place.plotWidth / (view.to - view.from);
  context.textAlign = "left";
  const outlined: Box[] = [];
  for (const piece of scene.pieces) {
    drawDensity(context, scene, piece, colours);
    const { boxes, names, from_ns } = piece.tile;
    const chosen = chosenNodes(piece.tile, select);
    let last = "";
    for (let index = 0; index < boxes.lane.length; index += 1) {
      const start = from_ns + (boxes.start[index] ?? 0);
      const long = boxes.ns[index] ?? 0;
      if (start + long < view.from || start > view.to || start + long < piece.from || start > piece.to) continue;
      const box = boxAt(scene, piece, index);
      if (!box) continue;
      const category = boxes.category[index] ?? 0;
      const colour = colourOf(colours, scene.colour, boxes.type[index] ?? 0, category, boxes.layer[index] ?? 0, boxes.lane[index] ?? 0);
      if (colour !== last) {
        context.fillStyle = colour;
        last = colour;
      }
      // A gap of a pixel between neighbours, where there is room for one.
      const wide = long * perNs > 3 ? box.width - 0.8 : box.width;
      context.fillRect(box.x, box.y, wide, box.height);
      if (wide > 5) {
        const hatch = scene.colour === "category" ? meaning(facts.categories[category] ?? "").hatch : "";
        const pattern = hatch ? scene.patterns?.[hatch] : null;
        if (pattern) {
          context.fillStyle = pattern;
          context.fillRect(box.x, box.y, wide, box.height);
          last = "";
        }
      }
      const node = boxes.node[index] ?? 0;
      if (wide > 16) {
        const label = labelFor(names[node] ?? "", wide - 8, (one) => widthOf(context, one));
        if (label) {
          context.fillStyle = inkOn(colour);
          context.fillText(label, box.x + 4, box.y + box.height / 2 + 0.5);
          last = "";
        }
      }
      const row = boxes.row[index] ?? -1;
      const hovered = scene.hover && scene.hover.row === row && scene.hover.lane === boxes.lane[index];
      if (chosen.has(node) || hovered) outlined.push(box);
    }
  }
  context.lineWidth = 2;
  context.strokeStyle = theme.text;
  for (const box of outlined) context.strokeRect(box.x - 0.5, box.y - 0.5, Math.max(box.width, 2) + 0.5, box.height + 1);
  context.lineWidth = 1;
}

/** Which of a tile's names the selection means. */
export function chosenNodes(tile: Tile, select: Selection | null): ReadonlySet<number> {
  const chosen = new Set<number>();
  if (select?.kind !== "op") return chosen;
  const name = select.name;
  tile.names.forEach((one, node) => {
    // Names longer than 200 characters come with their middle left out.
    if (one === name || (name.length > 200 && one.length > 2 && name.startsWith(one.split("…")[0] ?? "\0"))) chosen.add(node);
  });
  return chosen;
}

/** Where ops are narrower than a pixel: columns, as dense as they were busy, in the busiest one's colour. */
function drawDensity(context: CanvasRenderingContext2D, scene: Scene, piece: Piece, colours: Colours): void {
  const { density, from_ns, to_ns } = piece.tile;
  const { place, view, facts } = scene;
  const column = (to_ns - from_ns) / facts.tile_columns;
  const wide = Math.max(1, (column / (view.to - view.from)) * place.plotWidth);
  const first = Math.max(view.from, piece.from) - column;
  const end = Math.min(view.to, piece.to);
  let last = "";
  let lastAlpha = -1;
  for (let index = 0; index < density.lane.length; index += 1) {
    const start = from_ns + (density.column[index] ?? 0) * column;
    if (start < first || start >= end) continue;
    const lane = density.lane[index] ?? 0;
    const row = place.rowOfLane.get(lane);
    if (!row) continue;
    const y = place.lanesTop + row.y - place.scroll;
    if (y + row.height < place.lanesTop || y > place.lanesBottom) continue;
    const colour = colourOf(colours, scene.colour, density.type[index] ?? 0, density.category[index] ?? 0, 0, lane);
    const alpha = 0.2 + 0.1 * Math.round(((density.busy[index] ?? 0) / 255) * 8);
    if (colour !== last) {
      context.fillStyle = colour;
      last = colour;
    }
    if (alpha !== lastAlpha) {
      context.globalAlpha = alpha;
      lastAlpha = alpha;
    }
    context.fillRect(xOf(start, view, place), y, wide, place.row - 2);
  }
  context.globalAlpha = 1;
}

const isTrouble = (kind: string): boolean => kind === "failure" || kind === "oom";

function drawMarkLines(context: CanvasRenderingContext2D, scene: Scene): void {
  const { facts, place, view, theme } = scene;
  for (let index = 0; index < facts.marks.label.length; index += 1) {
    const ns = facts.marks.from_ns[index] ?? 0;
    if (ns < view.from || ns > view.to || !isTrouble(text(facts.marks.kind, index))) continue;
    context.fillStyle = categoryColour("failure", theme);
    context.fillRect(xOf(ns, view, place) - 1, place.lanesTop, 2, place.lanesBottom - place.lanesTop);
  }
}

/** What a mark says; of a run that is notably longer than its ops, how long, and how much of it came before them. */
export function markLabel(facts: Pick<TimelineFacts, "marks" | "from_ns" | "to_ns">, index: number): string {
  const { marks } = facts;
  const name = shortened(marks.label[index] ?? "", 40);
  const [from, to] = [marks.from_ns[index] ?? 0, marks.to_ns[index] ?? 0];
  const alone = !marks.label.some((_, other) => other !== index && text(marks.kind, other) === "run");
  if (text(marks.kind, index) !== "run" || !alone || to - from <= 1.1 * (facts.to_ns - facts.from_ns)) return name;
  const before = facts.from_ns - from;
  return `${name} took ${time(to - from)}${before > 0.05 * (to - from) ? `, ${time(before)} of it before its first op` : ""}`;
}

function drawMarks(context: CanvasRenderingContext2D, scene: Scene): void {
  const { facts, place, view, theme } = scene;
  let free = Number.NEGATIVE_INFINITY;
  clipped(context, GUTTER, place.marksTop, place.plotWidth, MARKS, () => {
    for (let index = 0; index < facts.marks.label.length; index += 1) {
      const from = facts.marks.from_ns[index] ?? 0;
      const to = facts.marks.to_ns[index] ?? from;
      if (to < view.from || from > view.to) continue;
      const trouble = isTrouble(text(facts.marks.kind, index));
      const x = Math.max(xOf(from, view, place), GUTTER);
      const end = Math.min(xOf(to, view, place), place.width);
      context.fillStyle = trouble ? categoryColour("failure", theme) : theme.line;
      context.fillRect(x, place.marksTop + 3, Math.max(1, end - x - 1), 2);
      context.fillRect(x, place.marksTop + 3, 1, 12);
      const label = markLabel(facts, index);
      const wide = widthOf(context, label);
      if (x < free || (!trouble && x + wide + 8 > end)) continue;
      context.fillStyle = trouble ? categoryColour("failure", theme) : theme.quiet;
      context.textAlign = "left";
      context.fillText(label, Math.min(x + 4, place.width - wide - 4), place.marksTop + 12);
      free = x + wide + 12;
    }
  });
}

/** The critical path: along the foot of its ops, jumping between lanes, with its waits hatched. */
function drawPath(context: CanvasRenderingContext2D, scene: Scene): void {
  const { facts, place, view, theme } = scene;
  const path = facts.path;
  if (!path) return;
  let before = null as { x: number; y: number } | null;
  context.strokeStyle = theme.text;
  context.lineWidth = 2;
  context.beginPath();
  const waits: Box[] = [];
  for (let index = 0; index < path.from_ns.length; index += 1) {
    const from = path.from_ns[index] ?? 0;
    const to = path.to_ns[index] ?? 0;
    if (to < view.from || from > view.to) continue;
    const lane = path.lane[index] ?? -1;
    const kind = text(path.kind, index);
    const high = top(place, lane, 0);
    const y: number | null = high === null ? (before?.y ?? null) : high + place.row - 2;
    if (y === null) continue;
    const [x, end] = [xOf(Math.max(from, view.from), view, place), xOf(Math.min(to, view.to), view, place)];
    if (kind === "executing" || kind === "transfer") {
      // Many within one pixel are one line.
      if (before && end - before.x < 0.5 && before.y === y) continue;
      if (before && before.y !== y) context.lineTo(before.x, y);
      else context.moveTo(before && before.y === y ? before.x : x, y);
      context.moveTo(x, y);
      context.lineTo(Math.max(end, x + 1), y);
      before = { x: end, y };
      context.moveTo(end, y);
    } else if (end - x >= 3) waits.push({ x, y: y - 5, width: end - x, height: 5 });
  }
  context.stroke();
  context.lineWidth = 1;
  context.fillStyle = scene.patterns?.rising ?? theme.quiet;
  for (const wait of waits) context.fillRect(wait.x, wait.y, wait.width, wait.height);
}

function drawTransfers(context: CanvasRenderingContext2D, scene: Scene): void {
  const { facts, view, theme } = scene;
  const all = facts.transfers;
  if (!all) return;
  context.strokeStyle = categoryColour("transfer", theme);
  context.globalAlpha = 0.7;
  context.beginPath();
  for (let index = 0; index < all.from_ns.length; index += 1) {
    const [from, to] = [all.from_ns[index] ?? 0, all.to_ns[index] ?? 0];
    if (to < view.from || from > view.to) continue;
    arrow(context, scene, all.from_lane[index] ?? -1, from, all.to_lane[index] ?? -1, to);
  }
  context.stroke();
  context.globalAlpha = 1;
}

function arrow(context: CanvasRenderingContext2D, scene: Scene, fromLane: number, from: number, toLane: number, to: number, depths: [number, number] = [0, 0]): void {
  const { place, view } = scene;
  const [y, end] = [top(place, fromLane, depths[0]), top(place, toLane, depths[1])];
  if (y === null || end === null) return;
  const [x, tip] = [xOf(from, view, place), xOf(to, view, place)];
  const [middle, foot] = [y + place.row / 2, end + place.row / 2];
  const bend = Math.max(12, Math.abs(tip - x) / 3);
  context.moveTo(x, middle);
  context.bezierCurveTo(x + bend, middle, tip - bend, foot, tip, foot);
  context.moveTo(tip - 5, foot - 3);
  context.lineTo(tip, foot);
  context.lineTo(tip - 5, foot + 3);
}

/** Arrows of the selected op's inputs and outputs. */
function drawEdges(context: CanvasRenderingContext2D, scene: Scene): void {
  const { edges, theme, select } = scene;
  if (!edges || select?.kind !== "op") return;
  context.strokeStyle = theme.accent;
  context.lineWidth = 1.5;
  context.beginPath();
  const own = ownBox(scene);
  if (own) {
    for (const input of edges.inputs) arrow(context, scene, input.lane, input.to_ns, own.lane, own.from, [input.depth, own.depth]);
    for (const output of edges.outputs) arrow(context, scene, own.lane, own.to, output.lane, output.from_ns, [own.depth, output.depth]);
  }
  context.stroke();
  context.lineWidth = 1;
}

/** The selected execution, if a tile at hand has it. */
function ownBox(scene: Scene): { lane: number; depth: number; from: number; to: number } | null {
  const { select } = scene;
  for (const { tile } of scene.pieces) {
    const chosen = chosenNodes(tile, select);
    for (let index = 0; index < tile.boxes.lane.length; index += 1) {
      const fits = select?.row === undefined ? chosen.has(tile.boxes.node[index] ?? -1) : tile.boxes.row[index] === select.row;
      if (!fits) continue;
      const from = tile.from_ns + (tile.boxes.start[index] ?? 0);
      return { lane: tile.boxes.lane[index] ?? 0, depth: tile.boxes.depth[index] ?? 0, from, to: from + (tile.boxes.ns[index] ?? 0) };
    }
  }
  return null;
}

function drawGutter(context: CanvasRenderingContext2D, scene: Scene): void {
  const { place, theme } = scene;
  clipped(context, 0, place.lanesTop, GUTTER - 4, place.lanesBottom - place.lanesTop, () => {
    context.textAlign = "left";
    for (const group of place.groups) {
      context.fillStyle = theme.text;
      context.font = `600 ${theme.font}`;
      context.fillText(fitted(context, group.label, GUTTER - 20), 12, place.lanesTop + group.y - place.scroll + GROUP / 2);
    }
    context.font = theme.font;
    for (const row of place.rows) {
      const y = place.lanesTop + row.y - place.scroll;
      if (y + row.height < place.lanesTop || y > place.lanesBottom) continue;
      context.fillStyle = theme.quiet;
      context.fillText(fitted(context, row.label, GUTTER - 28), 20, y + place.row / 2 - 1);
    }
  });
}

function fitted(context: CanvasRenderingContext2D, label: string, room: number): string {
  for (const most of [60, 26, 20, 16, 12]) {
    const shown = shortened(label, most);
    if (widthOf(context, shown) <= room) return shown;
  }
  return shortened(label, 10);
}

/** Live memory on the same axis. */
function drawMemory(context: CanvasRenderingContext2D, scene: Scene): void {
  const { facts, place, theme, view } = scene;
  const memory = facts.memory;
  if (!memory) return;
  const [ceiling, floor] = [place.memoryTop + 8, place.height - 6];
  context.fillStyle = theme.line;
  context.fillRect(0, place.memoryTop - 2, place.width, 1);
  const yOf = (bytes: number): number => floor - (bytes / (memory.peak_bytes || 1)) * (floor - ceiling);
  clipped(context, GUTTER, place.memoryTop, place.plotWidth, place.height - place.memoryTop, () => {
    const outline: [number, number][] = [];
    for (let index = 0; index < memory.ns.length; index += 1) {
      const next = memory.ns[index + 1] ?? facts.to_ns;
      if (next < view.from || (memory.ns[index] ?? 0) > view.to) continue;
      const x = xOf(Math.max(memory.ns[index] ?? 0, view.from), view, place);
      outline.push([x, yOf(memory.bytes[index] ?? 0)], [xOf(Math.min(next, view.to), view, place), yOf(memory.bytes[index] ?? 0)]);
    }
    context.beginPath();
    context.moveTo(outline[0]?.[0] ?? GUTTER, floor);
    for (const [x, y] of outline) context.lineTo(x, y);
    context.lineTo(outline.at(-1)?.[0] ?? GUTTER, floor);
    context.closePath();
    context.fillStyle = theme.dark ? "rgba(122,99,184,0.35)" : "rgba(122,95,181,0.22)";
    context.fill();
    context.beginPath();
    outline.forEach(([x, y], place_) => (place_ ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.strokeStyle = theme.dark ? "#a08bd6" : "#7a5fb5";
    context.stroke();
  });
  context.textAlign = "left";
  context.fillStyle = theme.text;
  context.font = `600 ${theme.font}`;
  context.fillText("memory", 12, ceiling + 6);
  context.font = theme.font;
  context.fillStyle = theme.quiet;
  context.fillText(fitted(context, memory.device, GUTTER - 28), 20, ceiling + 23);
  context.fillText(`peak ${size(memory.peak_bytes)}`, 20, ceiling + 40);
}

function drawRange(context: CanvasRenderingContext2D, scene: Scene): void {
  const { range, view, place, theme } = scene;
  if (!range) return;
  const from = Math.max(xOf(range[0], view, place), GUTTER);
  const to = Math.min(xOf(range[1], view, place), place.width);
  if (to <= from) return;
  context.fillStyle = theme.dark ? "rgba(130,177,238,0.14)" : "rgba(42,95,165,0.10)";
  context.fillRect(from, place.rulerTop, to - from, place.height - place.rulerTop);
  context.fillStyle = theme.accent;
  context.fillRect(from, place.rulerTop, 1, place.height - place.rulerTop);
  context.fillRect(to - 1, place.rulerTop, 1, place.height - place.rulerTop);
  const label = time(range[1] - range[0]);
  const wide = context.measureText(label).width;
  if (to - from < wide + 12) return;
  const middle = (from + to) / 2;
  context.fillStyle = theme.ground;
  context.fillRect(middle - wide / 2 - 4, place.rulerTop + 1, wide + 8, RULER - 4);
  context.fillStyle = theme.accent;
  context.textAlign = "center";
  context.fillText(label, middle, place.rulerTop + RULER / 2 - 1);
  context.textAlign = "left";
}

export type Pointed =
  | { readonly kind: "box"; readonly tile: Tile; readonly index: number }
  | { readonly kind: "strip" | "ruler" | "lanes" | "memory" | "gutter"; readonly ns: number };

/** What lies under a point: the innermost box, or which part of the picture. */
export function pointed(scene: Pick<Scene, "pieces" | "place" | "view">, x: number, y: number): Pointed {
  const { place, view } = scene;
  const ns = nsAt(x, view, place);
  if (x < GUTTER) return { kind: "gutter", ns };
  if (y < place.rulerTop) return { kind: "strip", ns };
  if (y < place.marksTop) return { kind: "ruler", ns };
  if (y > place.lanesBottom) return { kind: "memory", ns };
  let best: Pointed | null = null;
  let near = 2.5;
  for (const piece of scene.pieces) {
    for (let index = 0; index < piece.tile.boxes.lane.length; index += 1) {
      const start = piece.tile.from_ns + (piece.tile.boxes.start[index] ?? 0);
      const slack = ((view.to - view.from) / place.plotWidth) * 2;
      if (start > ns + slack || start + (piece.tile.boxes.ns[index] ?? 0) < ns - slack) continue;
      const box = boxAt(scene, piece, index);
      if (!box || y < box.y || y > box.y + box.height) continue;
      // A box of less than a pixel is meant by whoever is beside it.
      const away = Math.max(box.x - x, x - box.x - box.width, 0);
      if (away > near) continue;
      near = away;
      best = { kind: "box", tile: piece.tile, index };
    }
  }
  return best ?? { kind: "lanes", ns };
}

/** What lies in a range, summed by type from the boxes at hand: for reports. */
export function sumRange(facts: TimelineFacts, pieces_: readonly Piece[], from: number, to: number): { key: string; calls: number; total_ns: number }[] {
  const sums = new Map<string, { key: string; calls: number; total_ns: number }>();
  for (const { tile, from: begin, to: end } of pieces_) {
    for (let index = 0; index < tile.boxes.lane.length; index += 1) {
      const start = tile.from_ns + (tile.boxes.start[index] ?? 0);
      const overlap = Math.min(start + (tile.boxes.ns[index] ?? 0), to, end) - Math.max(start, from, begin);
      if (overlap <= 0) continue;
      const key = facts.types[tile.boxes.type[index] ?? 0] ?? "";
      const sum = sums.get(key) ?? { key, calls: 0, total_ns: 0 };
      sum.calls += 1;
      sum.total_ns += overlap;
      sums.set(key, sum);
    }
  }
  return [...sums.values()].sort((one, other) => other.total_ns - one.total_ns);
}
