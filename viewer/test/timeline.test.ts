// What the timeline draws, and where.
import { strict as assert } from "node:assert";
import { test } from "node:test";
import { LIGHT, MEANINGS } from "../src/colour.ts";
import type { Tile, TimelineFacts } from "../src/data/types.ts";
import { moved, sizeTicks, tickLabel, ticks, zoomed } from "../src/draw/axis.ts";
import { type TilePlace, levelFor, pieces, tilesFor } from "../src/draw/tiles.ts";
import { GUTTER, type Scene, boxAt, drawTimeline, geometry, labelFor, markLabel, nsAt, pointed, sumRange, xOf } from "../src/draw/timeline.ts";
import { fit } from "../src/pages/timeline.tsx";
import { Double } from "../dev/double.ts";

async function sceneOf(repeat = 1, view?: [number, number]): Promise<Scene> {
  const double = new Double(repeat);
  const facts = (await double.get("timeline")) as TimelineFacts;
  const shown = { from: view?.[0] ?? facts.from_ns, to: view?.[1] ?? facts.to_ns };
  const place = geometry(facts, 1200, 600, 0);
  const tiles = new Map<string, Tile>();
  for (const { level, index } of [{ level: 0, index: 0 }, ...tilesFor(facts, shown, place.plotWidth)]) tiles.set(`${level}.${index}`, (await double.get(`tile?level=${level}&index=${index}`)) as Tile);
  const look = ({ level, index }: TilePlace): Tile | undefined => tiles.get(`${level}.${index}`);
  return { facts, pieces: pieces(facts, shown, place.plotWidth, look, look), place, view: shown, theme: LIGHT, patterns: null, colour: "category", select: null, range: null, hover: null, edges: null };
}

/** A context that notes what is drawn on it. */
function notes() {
  const drawn: { rects: [string, number, number, number, number][]; texts: string[] } = { rects: [], texts: [] };
  const context: Record<string, unknown> = { fillStyle: "", globalAlpha: 1, measureText: (label: string) => ({ width: label.length * 6 }) };
  context.fillRect = (x: number, y: number, width: number, height: number) => drawn.rects.push([String(context.fillStyle), x, y, width, height]);
  context.fillText = (label: string) => drawn.texts.push(label);
  for (const name of ["save", "restore", "beginPath", "rect", "clip", "moveTo", "lineTo", "stroke", "fill", "closePath", "strokeRect", "bezierCurveTo"]) context[name] = () => undefined;
  return { context: context as unknown as CanvasRenderingContext2D, drawn };
}

test("a run that is longer than its ops says how long, and what came before them", async () => {
  const { facts } = await sceneOf();
  const marked = (from: number, to: number, kind = "run") => markLabel({ from_ns: 0, to_ns: 600_000, marks: { ...facts.marks, label: ["run 6"], kind: { codes: [0], table: [kind] }, from_ns: [from], to_ns: [to] } }, 0);
  assert.equal(marked(-5_000_000, 1_400_000), "run 6 took 6.40 ms, 5.00 ms of it before its first op");
  assert.equal(marked(0, 1_400_000), "run 6 took 1.40 ms");
  assert.equal(marked(-10_000, 610_000), "run 6", "hardly longer");
  assert.equal(marked(-5_000_000, 1_400_000, "step"), "run 6");
});

test("lanes stand below each other, grouped by device", async () => {
  const { place } = await sceneOf();
  assert.deepEqual(place.groups.map((group) => group.label), ["CPU:0"]);
  assert.deepEqual(place.rows.map((row) => row.label), ["main thread", "thread 1", "thread 2"]);
  place.rows.slice(1).forEach((row, at) => assert.ok(row.y >= (place.rows[at]?.y ?? 0) + place.row));
});

test("every op is a box at its time, on its lane", async () => {
  const scene = await sceneOf();
  const piece = scene.pieces[0];
  assert.ok(piece);
  const { tile } = piece;
  assert.equal(tile.boxes.lane.length, scene.facts.ops);
  for (let index = 0; index < tile.boxes.lane.length; index += 1) {
    const box = boxAt(scene, piece, index);
    assert.ok(box);
    const start = tile.from_ns + (tile.boxes.start[index] ?? 0);
    assert.ok(Math.abs(nsAt(box.x, scene.view, scene.place) - start) < 1);
    const row = scene.place.rowOfLane.get(tile.boxes.lane[index] ?? -1);
    assert.equal(box.y, scene.place.lanesTop + (row?.y ?? Number.NaN));
  }
});

test("drawing fills a box for each op, in the colour of its meaning, and names those with room", async () => {
  const scene = await sceneOf();
  const { context, drawn } = notes();
  drawTimeline(context, scene);
  const meanings = Object.values(MEANINGS).map((one) => one.light);
  const boxes = drawn.rects.filter(([colour]) => meanings.includes(colour));
  assert.equal(boxes.length, scene.facts.ops);
  assert.ok(drawn.texts.includes("input/map"));
  assert.ok(drawn.texts.includes("memory"));
  // Only whole names and whole last parts: never a cut word.
  const piece = scene.pieces[0];
  const allowed = new Set(piece?.tile.names.flatMap((name) => [name, name.split("/").at(-1) ?? ""]));
  for (const label of drawn.texts.filter((one) => one.includes("MatMul"))) assert.ok(allowed.has(label), label);
});

test("pointing at a box finds it, and beside it the lane", async () => {
  const scene = await sceneOf();
  const piece = scene.pieces[0];
  assert.ok(piece);
  const box = boxAt(scene, piece, 5);
  assert.ok(box);
  const found = pointed(scene, box.x + box.width / 2, box.y + 3);
  assert.deepEqual(found, { kind: "box", tile: piece.tile, index: 5 });
  assert.equal(pointed(scene, 300, scene.place.lanesBottom - 2).kind, "lanes");
  assert.equal(pointed(scene, 300, 5).kind, "strip");
  assert.equal(pointed(scene, 300, 40).kind, "ruler");
  assert.equal(pointed(scene, 20, 200).kind, "gutter");
});

test("of many ops every column that was busy is drawn", async () => {
  const scene = await sceneOf(400);
  const { context, drawn } = notes();
  drawTimeline(context, scene);
  const main = scene.place.rowOfLane.get(0);
  const y = scene.place.lanesTop + (main?.y ?? 0);
  const columns = new Set<number>();
  for (const [, x, top, width, height] of drawn.rects) {
    if (top !== y || height !== scene.place.row - 2) continue;
    for (let at = Math.floor(x); at < x + width; at += 1) columns.add(at);
  }
  // The main thread is never idle for as long as a pixel is wide.
  for (let x = GUTTER + 1; x < scene.place.width - 4; x += 1) assert.ok(columns.has(x), `nothing at ${x}`);
});

test("a view asks for the level whose columns are about a pixel wide", () => {
  const facts = { from_ns: 0, to_ns: 1e9, tile_columns: 1024, max_level: 14 };
  assert.equal(levelFor(facts, { from: 0, to: 1e9 }, 1024), 0);
  assert.equal(levelFor(facts, { from: 0, to: 1e9 / 8 }, 1024), 3);
  assert.equal(levelFor(facts, { from: 0, to: 1 }, 1024), 14);
  const places = tilesFor(facts, { from: 1e8, to: 1e8 + 1e9 / 8 }, 1024);
  assert.deepEqual(places, [{ level: 3, index: 0 }, { level: 3, index: 1 }]);
});

test("until a tile is here its ancestor is drawn, and below a whole tile none is asked for", () => {
  const facts = { from_ns: 0, to_ns: 1024, tile_columns: 1024, max_level: 14 };
  const tile = (level: number, index: number, whole: boolean): Tile => ({ level, index, whole, from_ns: (1024 / 2 ** level) * index, to_ns: (1024 / 2 ** level) * (index + 1), names: [], boxes: {}, density: {} }) as unknown as Tile;
  const here = new Map([["0.0", tile(0, 0, false)], ["1.0", tile(1, 0, true)]]);
  const asked: string[] = [];
  const look = ({ level, index }: TilePlace): Tile | undefined => { asked.push(`${level}.${index}`); return here.get(`${level}.${index}`); };
  const peek = ({ level, index }: TilePlace): Tile | undefined => here.get(`${level}.${index}`);
  const left = pieces(facts, { from: 0, to: 256 }, 1024, look, peek);
  assert.deepEqual(left.map((piece) => [piece.tile.level, piece.from, piece.to]), [[1, 0, 256]]);
  assert.deepEqual(asked, ["0.0"]);
  const right = pieces(facts, { from: 600, to: 856 }, 1024, look, peek);
  assert.deepEqual(right.map((piece) => piece.tile.level), [0]);
  assert.deepEqual(asked.slice(2), ["2.2", "2.3"]);
});

test("zooming keeps what is under the pointer, and stops at the ends", () => {
  const view = zoomed({ from: 0, to: 1000 }, 250, 0.5, 0, 1000);
  assert.deepEqual(view, { from: 125, to: 625 });
  assert.deepEqual(zoomed({ from: 100, to: 200 }, 150, 100, 0, 1000), { from: 0, to: 1000 });
  assert.deepEqual(moved({ from: 900, to: 1000 }, 500, 0, 1000), { from: 900, to: 1000 });
});

test("sizes have round marks, up to the peak", () => {
  assert.deepEqual(sizeTicks(210 * 1024).map((bytes) => bytes / 1024), [0, 50, 100, 150, 200]);
  assert.deepEqual(sizeTicks(2.08 * 2 ** 20).map((bytes) => bytes / 2 ** 20), [0, 0.5, 1, 1.5, 2]);
  assert.deepEqual(sizeTicks(0), [0]);
});

test("marks stand at round times", () => {
  assert.deepEqual(ticks({ from: 0, to: 10e6 }, 1000), [0, 2e6, 4e6, 6e6, 8e6]);
  assert.equal(tickLabel(4e6, 2e6), "4 ms");
  assert.equal(tickLabel(7.5e6, 2.5e6), "7.5 ms");
  assert.equal(tickLabel(0, 500_000, 1_500_000), "0");
  assert.equal(tickLabel(500_000, 500_000, 1_500_000), "0.5 ms");
  assert.equal(tickLabel(1_500_000, 500_000, 1_500_000), "1.5 ms");
  assert.equal(tickLabel(800, 200, 800), "800 ns");
  assert.equal(tickLabel(123_400_500, 500), "123.4005 ms");
});

test("a label is all of a name or its last part", () => {
  const measure = (label: string): number => label.length * 6;
  assert.equal(labelFor("dense/MatMul", 100, measure), "dense/MatMul");
  assert.equal(labelFor("dense/MatMul", 50, measure), "MatMul");
  assert.equal(labelFor("dense/MatMul", 30, measure), "");
});

test("F fits the selected op, the range, or all", async () => {
  const scene = await sceneOf();
  const tile = scene.pieces[0]?.tile as Tile;
  const start = tile.boxes.start[2] ?? 0;
  const long = tile.boxes.ns[2] ?? 0;
  assert.deepEqual(fit({ ...scene, select: { kind: "op", name: tile.names[2] ?? "", row: 2 } }), [start - long, start + 2 * long]);
  assert.deepEqual(fit({ ...scene, range: [5, 9] }), [5, 9]);
  assert.equal(fit(scene), null);
});

test("a range sums what lies in it", async () => {
  const scene = await sceneOf();
  const sums = sumRange(scene.facts, scene.pieces, scene.facts.from_ns, scene.facts.to_ns);
  const tile = scene.pieces[0]?.tile as Tile;
  assert.equal(sums.reduce((sum, row) => sum + row.calls, 0), scene.facts.ops);
  assert.equal(sums.reduce((sum, row) => sum + row.total_ns, 0), Array.from(tile.boxes.ns).reduce((sum, ns) => sum + ns, 0));
  assert.equal(xOf(scene.view.from, scene.view, scene.place), GUTTER);
});
