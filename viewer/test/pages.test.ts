// What the other pages draw: trees, graphs, tables, memory, colours.
import { strict as assert } from "node:assert";
import { test } from "node:test";
import { DARK, LIGHT, MEANINGS, type Rgb, hash, rgb } from "../src/colour.ts";
import { text } from "../src/data/frame.ts";
import type { Index, MemoryFacts, Ops, Runs, StepRow } from "../src/data/types.ts";
import { crossings, flowOrder, layout, ranksOf } from "../src/draw/graph_layout.ts";
import { dedented, membersOf } from "../src/panel.tsx";
import { bounds, heatRow, linesRows, longestOf, usualSort, withWords } from "../src/pages/cluster.tsx";
import { relative } from "../src/pages/compare.tsx";
import { drawnOf, partsOf } from "../src/pages/graph.tsx";
import { addressMap, aliveAt, nothingHeld, opOf, pointAt, stacked } from "../src/pages/memory.tsx";
import { columnsOf, matching, pathsOf, shortDevice } from "../src/pages/ops.tsx";
import { lines, stepBars } from "../src/pages/overview.tsx";
import { sentence } from "../src/parts/await.tsx";
import { icicle } from "../src/parts/icicle.tsx";
import { ordered } from "../src/parts/run_chooser.tsx";
import { find } from "../src/parts/search.tsx";
import { sparkPath } from "../src/parts/spark.tsx";
import { type ColumnOf, fitting, sorted, tableRows, visible } from "../src/parts/table.tsx";
import { Double } from "../dev/double.ts";

const double = new Double();

test("a tree's children lie below their parent, as wide as they are large", () => {
  //            0      1  2   3
  const boxes = icicle([-1, 0, 0, -1], [60, 40, 20, 40], 100);
  assert.deepEqual(boxes, [
    { node: 0, x: 0, width: 60, depth: 0 }, { node: 1, x: 0, width: 40, depth: 1 }, { node: 2, x: 40, width: 20, depth: 1 }, { node: 3, x: 60, width: 40, depth: 0 },
  ]);
  assert.deepEqual(icicle([-1, 0], [1000, 1], 100).map((box) => box.node), [0]);
});

test("a graph's edges go down, its nodes do not touch", () => {
  const edges: [number, number][] = [[0, 1], [0, 2], [1, 3], [2, 3], [0, 3], [3, 4]];
  const made = layout(Array.from({ length: 6 }, () => ({ width: 100, height: 30 })), edges);
  for (const [from, to] of edges) assert.ok((made.nodes[from]?.y ?? 0) < (made.nodes[to]?.y ?? 0));
  made.nodes.forEach((one, at) => made.nodes.slice(at + 1).forEach((other) => assert.ok(Math.abs(one.x - other.x) >= 100 || Math.abs(one.y - other.y) >= 30)));
  assert.equal(made.edges[4]?.length, 3, "an edge over a rank bends around it");
  assert.ok(made.width >= 100 && made.height > 4 * 30);
});

test("the names above a graph are of what is shown: where it opens, unless all of it was asked for", () => {
  assert.deepEqual(partsOf("", { scope: "Call/dense" }), ["Call", "dense"]);
  assert.deepEqual(partsOf("Call", { scope: "Call" }), ["Call"]);
  assert.deepEqual(partsOf("/", { scope: "" }), []);
});

test("a run without an allocation says so, and what was refused, instead of an empty chart", () => {
  const none = { curve: { ns: [], bytes: [] }, device: "CPU:0", peak_bytes: 0, oom: null };
  assert.equal(nothingHeld({ ...none, curve: { ns: [0, 1], bytes: [0, 8] } }), "");
  assert.match(nothingHeld(none), /^No single allocation on CPU:0 was recorded in this run.$/);
  assert.match(nothingHeld({ ...none, peak_bytes: 1 << 20 }), /Its peak was 1.00 MiB/);
  const refused = { request: { op: "every_combination", bytes: 2 ** 48 } };
  assert.match(nothingHeld({ ...none, oom: refused }), /^`every_combination` asked for 256 TiB on CPU:0, and was refused/);
});

test("a cycle is drawn, with one edge upwards", () => {
  const { ranks, turned } = ranksOf(3, [[0, 1], [1, 2], [2, 0]]);
  assert.deepEqual(ranks, [0, 1, 2]);
  assert.deepEqual([...turned], [2]);
  const made = layout([0, 1, 2].map(() => ({ width: 50, height: 20 })), [[0, 1], [1, 2], [2, 0], [1, 1]]);
  assert.deepEqual(made.nodes.map((node) => node.rank), [0, 1, 2]);
  assert.ok((made.edges[2]?.[0]?.[1] ?? 0) > (made.edges[2]?.at(-1)?.[1] ?? 0));
});

test("of a cycle the lightest edge goes upwards: gradients stand below what they are of", () => {
  // flat -> layer -> gradients -> flat: three tensors go to the gradients, one comes back.
  const edges = [[0, 1], [1, 2], [2, 0]] as [number, number][];
  const weights = [2, 3, 1];
  assert.deepEqual(flowOrder(3, edges, (edge) => weights[edge] ?? 1), [0, 1, 2]);
  assert.deepEqual([...ranksOf(3, edges, (edge) => weights[edge] ?? 1).turned], [2]);
  assert.deepEqual(ranksOf(4, [[3, 2], [2, 1], [1, 0]]), { ranks: [3, 2, 1, 0], turned: new Set() });
});

test("nodes that were not measured and have no edge are counted, not drawn, where they are many", () => {
  const fed = Array.from({ length: 6 }, () => ({ state: "fed", kind: "op" }));
  const nodes = [...fed, { state: "measured", kind: "op" }, { state: "pruned", kind: "op" }, { state: "fed", kind: "op" }];
  const { shown, left } = drawnOf(nodes, { from: [8], to: [6] });
  assert.deepEqual(shown, [6, 7, 8]);
  assert.deepEqual([...left], [["fed", 6]]);
});

test("columns that can be spared go one by one, never the one of the order", () => {
  const column = (id: string, spare?: number): ColumnOf => ({ id, label: id, value: () => 0, show: () => "", ...(spare ? { spare } : {}) });
  const columns = [column("op"), column("mean", 2), column("p99", 1), column("device", 3)];
  const kept = (sort: string, out: number): string[] => fitting(columns, sort, out).map((one) => one.id);
  assert.deepEqual(kept("", 0), ["op", "mean", "p99", "device"]);
  assert.deepEqual(kept("", 1), ["op", "mean", "device"]);
  assert.deepEqual(kept("-p99", 2), ["op", "p99"]);
  assert.deepEqual(kept("", 9), ["op"]);
});

test("crossings are counted, and an order without them is found", () => {
  assert.equal(crossings([[0, 1], [1, 0]]), 1);
  const made = layout([0, 1, 2, 3].map(() => ({ width: 40, height: 20 })), [[0, 3], [1, 2]]);
  const side = (node: number): number => made.nodes[node]?.x ?? 0;
  assert.equal(Math.sign(side(0) - side(1)), Math.sign(side(3) - side(2)));
});

test("five hundred nodes are laid out while one blinks", () => {
  const edges = Array.from({ length: 900 }, (_, at) => [at % 499, Math.min(499, (at % 499) + 1 + (at % 7))] as [number, number]);
  const before = performance.now();
  const made = layout(Array.from({ length: 500 }, () => ({ width: 100, height: 30 })), edges);
  assert.equal(made.nodes.length, 500);
  // Not a speed test: a layout that went quadratic in the number of crossings would take minutes.
  assert.ok(performance.now() - before < 30_000);
});

test("the tensors of an instant sum to the live bytes, at every point of the curve", async () => {
  const memory = (await double.get("memory")) as MemoryFacts;
  for (let point = 0; point < memory.curve.ns.length; point += 1) {
    const alive = aliveAt(memory.tensors, memory.curve.ns[point] ?? 0);
    const sum = alive.reduce((bytes, row) => bytes + (memory.tensors.bytes[row] ?? 0), 0);
    assert.equal(sum + (memory.rest?.[point] ?? 0), memory.curve.bytes[point]);
  }
  const points = memory.curve.ns.length;
  assert.deepEqual(stacked(memory.series, points).at(-1), Array.from(memory.curve.bytes));
  assert.equal(memory.curve.bytes[pointAt(memory.curve.ns, memory.peak_ns)], memory.peak_bytes);
  assert.equal(opOf("dense/MatMul:0"), "dense/MatMul");
});

test("addresses lie where they are, gaps included", async () => {
  const memory = (await double.get("memory")) as MemoryFacts;
  const rows = aliveAt(memory.tensors, memory.peak_ns);
  const { boxes } = addressMap(memory.tensors, rows, 1000);
  assert.equal(boxes.length, rows.length);
  const ends = [...boxes].sort((one, other) => one.x - other.x);
  ends.slice(1).forEach((box, at) => assert.ok(box.x >= (ends[at]?.x ?? 0) + (ends[at]?.width ?? 0) - 1e-6));
});

test("in a narrow window a table of ops keeps what was called, how often and how long", async () => {
  const columns = columnsOf((await double.get("ops?by=name")) as Ops);
  assert.deepEqual(columns.filter((column) => !column.spare).map((column) => column.id).filter((id) => id !== "op"), ["key", "calls", "self_ns", "share"]);
});

test("who kept others waiting stands first, and workers can be looked for", () => {
  assert.equal(usualSort({ cost_ns: [0, 5, Number.NaN] }), "-cost_ns");
  assert.equal(usualSort({ cost_ns: [0, Number.NaN] }), "");
  const names = ["ps:0", "worker:4", "worker:43", "worker:5"];
  assert.deepEqual(withWords(names, " Worker:4"), [1, 2]);
  assert.deepEqual(withWords(names, ""), [0, 1, 2, 3]);
});

test("of workers that share a line of the picture the longest shows", () => {
  const lengths = Float32Array.from([1, 2, 9, 3, 1, 1]);
  assert.deepEqual([0, 1].map((line) => linesRows(line, 2, 6)), [[0, 3], [3, 6]]);
  assert.equal(longestOf(lengths, 1, 0, [0, 3]), 9);
  assert.ok(Number.isNaN(longestOf(Float32Array.from([Number.NaN]), 1, 0, [0, 1])));
});

test("a gap that would flatten all else is a break, others are to scale", () => {
  const tensors = { bytes: [100, 100, 200], address: [1000, 1150, 9_000_000] } as unknown as MemoryFacts["tensors"];
  const { boxes, breaks, free } = addressMap(tensors, [2, 0, 1], 464);
  assert.deepEqual(boxes.map((box) => [box.row, Math.round(box.x), Math.round(box.width)]), [[0, 0, 100], [1, 150, 100], [2, 264, 200]]);
  assert.deepEqual(breaks, [{ x: 250, bytes: 9_000_000 - 1250 }]);
  assert.equal(free, 50);
});

test("what is not there is said in sentences", () => {
  assert.equal(sentence("these runs are of one process"), "These runs are of one process.");
  assert.equal(sentence("`stepscope view BASE NEW`"), "`stepscope view BASE NEW`");
  assert.deepEqual(lines("one\n\n  two\nthree"), ["one", "two", "three"]);
});

test("rows are sorted, filtered and drawn where they are looked at", async () => {
  const ops = (await double.get("ops?by=name")) as Ops;
  const columns = columnsOf(ops);
  const rows = matching(ops, "matmul");
  assert.ok(rows.length === 10 && rows.every((row) => (ops.rows.key[row] ?? "").includes("MatMul")));
  const order = sorted(rows, columns, "-self_ns").map((row) => (ops.rows.self_ns as number[])[row] ?? 0);
  assert.deepEqual(order, [...order].sort((one, other) => other - one));
  assert.deepEqual(visible(2000, 24_000, 480), [992, 1028]);
  assert.deepEqual(tableRows(columns, rows).rows[0]?.[0], ops.rows.key[rows[0] ?? 0]);
  assert.equal(shortDevice("/job:localhost/replica:0/task:0/device:CPU:0"), "CPU:0");
  assert.equal(shortDevice("/job:ps/replica:0/task:0/device:CPU:0"), "ps:0/CPU:0");
});

test("names of a tree are whole", () => {
  assert.deepEqual(pathsOf(["a", "b", "a/c"], [-1, 0, 0]), ["a", "a/b", "a/c"]);
});

test("search finds layers, types and lines with what they sum to, then ops", async () => {
  const index = (await double.get("index")) as Index;
  const found = find(index, "MATMUL");
  assert.deepEqual(found[0]?.select, { kind: "type", name: "MatMul" });
  assert.equal(found.filter((one) => one.kind === "op").length, 10);
  assert.deepEqual(find(index, "  "), []);
  const members = membersOf(index, { kind: "line", name: "train.py:32" });
  assert.ok(members.length === 5 && members.every((op) => op.type === "ApplyAdam"));
});

test("source stands without the white space that all of its lines have", () => {
  assert.deepEqual(dedented([[1, "    if x:"], [2, ""], [3, "      y()"]]), [[1, "if x:"], [2, ""], [3, "  y()"]]);
});

test("failed runs come first in the list, then the slowest", async () => {
  const runs = (await double.get("runs")) as Runs;
  assert.deepEqual(ordered(runs, "").slice(0, 3).map((row) => runs.number[row]), [150, 0, 42]);
  assert.deepEqual(ordered(runs, "#117"), [117]);
  assert.equal(text(runs.status, 150), "DEADLINE_EXCEEDED");
});

test("a slow step is marked and does not flatten the others", () => {
  const lengths = [100, 10, 10, 10, 10];
  const bars = stepBars({ key: "k", runs: 5, median_ns: 10, p90_ns: 12, lengths_ns: lengths } as unknown as StepRow, 100, 46);
  assert.deepEqual(bars.map((bar) => bar.over), [true, false, false, false, false]);
  assert.ok((bars[1]?.height ?? 0) > 46 / 4);
});

test("a line over runs keeps its highest point", () => {
  const values = Array.from({ length: 500 }, (_, at) => (at === 250 ? 9 : 1));
  assert.match(sparkPath(values, 0, 500, 72, 16), / 1\.0/);
  assert.equal(sparkPath([Number.NaN, Number.NaN], 0, 2, 72, 16), "");
});

test("a thousand workers fit on one page", () => {
  for (const workers of [300, 1000, 5000]) assert.ok(heatRow(workers) * workers <= 320.001, "the table begins in sight");
  assert.equal(heatRow(4), 22);
  assert.deepEqual(bounds([5, Number.NaN, 9, 0]), [5, 9]);
  assert.equal(relative(1, 2), 1);
  assert.equal(relative(0, 0), 0);
});

// -- colours -------------------------------------------------------------------------------------

const linear = (part: number): number => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);

/** Machado, Oliveira and Fernandes, 2009: what is seen without one kind of cone, in linear RGB. */
const SEEN: Readonly<Record<string, readonly Rgb[]>> = {
  "as most see": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
  tritanopia: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
};

function lab(colour: string, seen: readonly Rgb[]): Rgb {
  const given = rgb(colour).map(linear) as unknown as Rgb;
  const [red, green, blue] = seen.map((row) => Math.max(0, row[0] * given[0] + row[1] * given[1] + row[2] * given[2])) as unknown as Rgb;
  const bend = (value: number): number => (value > 0.008856 ? Math.cbrt(value) : 7.787 * value + 16 / 116);
  const x = bend((0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.95047);
  const y = bend(0.2126 * red + 0.7152 * green + 0.0722 * blue);
  const z = bend((0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.08883);
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

for (const [theme, name] of [[LIGHT, "light"], [DARK, "dark"]] as const) {
  for (const [eyes, seen] of Object.entries(SEEN)) {
    test(`the seven meanings are told apart, ${name}, ${eyes}`, () => {
      const colours = Object.entries(MEANINGS).map(([key, one]) => [key, lab(theme.dark ? one.dark : one.light, seen)] as const);
      for (const [at, [one, left]] of colours.entries()) {
        for (const [other, right] of colours.slice(at + 1)) {
          const apart = Math.hypot(left[0] - right[0], left[1] - right[1], left[2] - right[2]);
          assert.ok(apart > 15, `${one} and ${other} are ${apart.toFixed(1)} apart`);
        }
      }
    });
  }
}

test("a name's colour depends on the name alone", () => {
  assert.equal(hash("MatMul"), hash("MatMul"));
  assert.notEqual(hash("dense_1") % 12, hash("dense_2") % 12);
});
